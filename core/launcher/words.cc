// See words.h.
#include "words.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/text.h"

namespace tailrace::launcher {
namespace {

bool g_silent = false;

struct Range {
  uint32_t first, last;
};
// The characters of Unicode's categories Cc, Cf, Co, Zl, Zp and Zs without the blank, and the noncharacters; an
// unassigned one has no effect on any terminal. In order.
constexpr Range kInvisible[] = {
    {0x00, 0x1F},       {0x7F, 0xA0},        {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
    {0x6DD, 0x6DD},     {0x70F, 0x70F},      {0x890, 0x891},     {0x8E2, 0x8E2},     {0x1680, 0x1680},
    {0x180E, 0x180E},   {0x2000, 0x200F},    {0x2028, 0x202F},   {0x205F, 0x206F},   {0x3000, 0x3000},
    {0xD800, 0xF8FF},   {0xFDD0, 0xFDEF},    {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD},  {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
    {0xE0000, 0xE00FF}, {0xF0000, 0x10FFFF},
};

bool is_invisible(uint32_t character) {
  const auto *found = std::upper_bound(std::begin(kInvisible), std::end(kInvisible), character,
                                       [](uint32_t c, const Range &range) { return c < range.first; });
  return found != std::begin(kInvisible) && character <= (found - 1)->last;
}

uint32_t character_at(std::string_view text, size_t at, unsigned bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (bytes == 1) return byte(0);
  uint32_t character = byte(0) & (0xFFU >> (bytes + 1));
  for (unsigned i = 1; i < bytes; ++i) character = character << 6 | (byte(i) & 0x3F);
  return character;
}

void append_escape(std::string &out, uint32_t character) {
  char text[16];
  switch (character) {
    case '\t': out += "\\t"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    default: break;
  }
  const char *form = character < 0x100 ? "\\x%02x" : character < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text, sizeof text, form, character);
  out += text;
}

std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
  return text;
}

}  // namespace

std::string visible(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const unsigned bytes = utf8_sequence(text, i);
    if (bytes == 0) {
      append_escape(out, 0xDC00U + static_cast<unsigned char>(text[i++]));
      continue;
    }
    const uint32_t character = character_at(text, i, bytes);
    if (is_invisible(character)) {
      append_escape(out, character);
    } else {
      out += text.substr(i, bytes);
    }
    i += bytes;
  }
  return out;
}

void say(std::string_view sentence) {
  if (g_silent) return;
  const std::string line = "tailrace: " + visible(sentence) + "\n";
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

void say_nothing() { g_silent = true; }

std::string bytes_text(uint64_t amount) {
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(amount);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return (unit == 0 ? std::to_string(amount) : three_digits(value)) + " " + kUnits[unit];
}

std::string percent_text(int64_t part, int64_t all) {
  if (all <= 0 || part >= all) return "100%";
  constexpr int kAlmostAll = 99'900;
  const auto thousandths = static_cast<int>(static_cast<__int128>(std::max<int64_t>(0, part)) * 100'000 / all);
  char text[16];
  if (thousandths < kAlmostAll)
    std::snprintf(text, sizeof text, "%.2f%%", thousandths / 1000.0);
  else
    std::snprintf(text, sizeof text, "%.3f%%", thousandths / 1000.0);
  return text;
}

std::string count_text(uint64_t number, const char *one, const char *plural) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits + " " + one + (number == 1 ? "" : plural);
}

std::string in_one_line(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  std::string out;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    if (!out.empty()) out += ' ';
    out += text.substr(at, end - at);
    at = text.find_first_not_of(kBlanks, end);
  }
  return out;
}

void append_json(std::string &out, std::string_view text) {
  // A byte becomes \u00XX at most.
  std::vector<char> room(6 * text.size() + 2);
  Writer w(room.data(), room.size());
  w.json(text);
  out += w.view();
}

}  // namespace tailrace::launcher
