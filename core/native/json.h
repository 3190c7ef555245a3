// The JSON (RFC 8259) that the reader needs: one value, or the members of one object, in one line.
//
// Invariants: the text ends with '\n', and kPadBytes readable bytes follow it. No valid line has a raw newline, so the
// newline stops every scan and no function needs the text's end. Broken text throws JsonError and never causes a read
// past it.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tailrace::native {

constexpr size_t kPadBytes = 64;

struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Value {
  enum class Kind : uint8_t { kString, kNumber, kObject, kArray, kTrue, kFalse, kNull };
  Kind kind = Kind::kNull;
  bool escaped = false;   // a string that holds a backslash
  std::string_view text;  // as in the line; a string's without its quotes
};

inline uint64_t load8(const char *p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline const char *skip_blanks(const char *p) {
  while (*p == ' ' || *p == '\t' || *p == '\r') ++p;
  return p;
}

// `p` is after an opening quote; returns the closing quote. Sets `escaped` when a backslash was passed.
const char *string_end(const char *p, bool *escaped);

// Reads the value at `p`, returns what follows it.
const char *read_value(const char *p, Value *value);

// The string without its escapes. A lone surrogate becomes U+FFFD.
void unescape(std::string_view raw, std::string *out);

// `text` with every byte sequence that is not UTF-8 replaced by U+FFFD, as Python's decode("utf-8", "replace") does.
// Returns `text` itself when it is UTF-8, else a view of `scratch`.
std::string_view clean_utf8(std::string_view text, std::string *scratch);

// The text of a string value as UTF-8; a view of the line or of `scratch`, both of which must outlive it.
std::string_view text_of(const Value &value, std::string *scratch);

// A whole number, clamped to int64. Throws when `text` is a fraction or has an exponent.
int64_t integer_of(std::string_view text);

// Calls `member(key, value)` for each member of the object at `p`; returns what follows the object.
template <typename F>
const char *each_member(const char *p, F &&member) {
  p = skip_blanks(p);
  if (*p != '{') throw JsonError("an object must start with {");
  p = skip_blanks(p + 1);
  if (*p == '}') return p + 1;
  std::string scratch;
  for (;;) {
    if (*p != '"') throw JsonError("a key must start with a quote");
    Value key;
    p = skip_blanks(read_value(p, &key));
    if (*p != ':') throw JsonError("a colon is missing after a key");
    Value value;
    p = skip_blanks(read_value(skip_blanks(p + 1), &value));
    member(text_of(key, &scratch), value);
    if (*p == '}') return p + 1;
    if (*p != ',') throw JsonError("a comma or } is missing after a value");
    p = skip_blanks(p + 1);
  }
}

}  // namespace tailrace::native
