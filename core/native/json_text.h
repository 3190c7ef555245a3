// JSON (json.h) in texts of their own, and the numbers of headers, which are whatever a writer put there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "json.h"

namespace tailrace::native {

// A text in the form that json.h reads: in one line, with bytes behind it.
inline std::string padded(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  out += '\n';
  out.append(kPadBytes, '\0');
  return out;
}

// Calls `member(key, value)` for each member of the object that the text is; does nothing where it is none.
template <typename F>
void each_member_of(std::string_view text, F &&member) {
  if (text.empty()) return;
  const std::string line = padded(text);
  if (*skip_blanks(line.data()) == '{') each_member(line.data(), member);
}

// Calls `element(value)` for each element of an array; does nothing where the value is none.
template <typename F>
void each_element(const Value &array, F &&element) {
  if (array.kind != Value::Kind::kArray) return;
  const char *p = skip_blanks(array.text.data() + 1);
  while (*p != ']') {
    Value value;
    p = skip_blanks(read_value(p, &value));
    element(value);
    if (*p == ',') p = skip_blanks(p + 1);
  }
}

// A whole number; none where the value is anything else.
inline std::optional<int64_t> whole(const Value &value) {
  if (value.kind != Value::Kind::kNumber) return std::nullopt;
  if (value.text.find_first_of(".eE") != std::string_view::npos) return std::nullopt;
  return integer_of(value.text);
}

// More bytes than any process has; sums of counts up to it fit an int64.
constexpr int64_t kMostCounted = int64_t{1} << 53;
using Counts2 = std::array<int64_t, 2>;  // of what was read, and written

inline std::optional<int64_t> count(const Value &value) {
  const auto number = whole(value);
  return number && *number >= 0 && *number <= kMostCounted ? number : std::nullopt;
}

// Two counts; none where the value is anything else.
inline std::optional<Counts2> count_pair(const Value &value) {
  Counts2 out = {};
  size_t n = 0;
  bool is_sound = value.kind == Value::Kind::kArray;
  each_element(value, [&](const Value &one) {
    const auto number = count(one);
    is_sound = is_sound && number && n < 2;
    if (is_sound) out[n++] = *number;
  });
  return is_sound && n == 2 ? std::optional(out) : std::nullopt;
}

}  // namespace tailrace::native
