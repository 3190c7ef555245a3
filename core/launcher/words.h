// Words for people and for files: lines on stderr, amounts, strings of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tailrace::launcher {

// `text` in which nothing acts on a terminal: control and invisible characters as Python's escapes (\n, \x1b, \u202e),
// bytes that are no UTF-8 as \udc80 to \udcff. tailrace.base.text.visible() is the same for Python.
std::string visible(std::string_view text);
// Prints `tailrace: SENTENCE` as a line on stderr, visible.
void say(std::string_view sentence);
// No line is printed from now on: the caller has closed stderr, so that its number may be another file's.
void say_nothing();

// "1.50 KiB": powers of 1024, three significant digits.
std::string bytes_text(uint64_t amount);
// "99.98%": a share, cut off: 100% means that nothing is missing.
std::string percent_text(int64_t part, int64_t all);
// "1,200 events"; "1 event".
std::string count_text(uint64_t number, const char *one, const char *plural = "s");
// `text` in one line: a blank in the place of each run of white space, none at its ends.
std::string in_one_line(std::string_view text);

void append_json(std::string &out, std::string_view text);

}  // namespace tailrace::launcher
