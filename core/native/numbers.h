// Numbers in the writer's form: runs of digits, and microseconds with decimals. They are read without a branch per
// digit; json.h reads all other forms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "json.h"
#include "saturating.h"

namespace tailrace::native {

inline constexpr uint64_t kPow10[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// The value of 8 ASCII digits less '0', first digit in the lowest byte (after D. Lemire, "Quickly parsing eight
// digits").
inline uint64_t eight_digits(uint64_t v) {
  v = v * 10 + (v >> 8);
  return (((v & 0x000000FF000000FFULL) * 0x000F424000000064ULL) +
          (((v >> 16) & 0x000000FF000000FFULL) * 0x0000271000000001ULL)) >>
         32;
}

// Reads a run of digits at `*p` and moves past it. False when there is none or more than 18, which may not fit.
inline bool read_digits(const char **p, uint64_t *value) {
  const char *q = *p;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint64_t v = 0;
  for (;;) {
    const uint64_t chunk = load8(q) ^ 0x3030303030303030ULL;
    const uint64_t other = ((chunk + 0x7676767676767676ULL) | chunk) & 0x8080808080808080ULL;
    if (other == 0) {
      v = v * kPow10[8] + eight_digits(chunk);
      q += 8;
      if (q - *p > 16) return false;
      continue;
    }
    const unsigned digits = static_cast<unsigned>(__builtin_ctzll(other)) / 8;
    if (digits > 0) v = v * kPow10[digits] + eight_digits(chunk << (64 - 8 * digits));
    q += digits;
    break;
  }
#else
  uint64_t v = 0;
  for (; *q >= '0' && *q <= '9' && q - *p < 19; ++q) v = v * 10 + static_cast<uint64_t>(*q - '0');
#endif
  const auto length = q - *p;
  if (length == 0 || length > 18) return false;
  *p = q;
  *value = v;
  return true;
}

inline bool ends_number(char c) { return c != '.' && c != 'e' && c != 'E'; }

inline int64_t saturated(int64_t us, int64_t rest_ns) {
  int64_t ns;
  if (__builtin_mul_overflow(us, int64_t{1000}, &ns) || __builtin_add_overflow(ns, rest_ns, &ns)) {
    return us < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  }
  return ns;
}

// Microseconds with decimals, as nanoseconds; smaller decimals are cut off.
inline int64_t decimal_us_to_ns(std::string_view text) {
  const size_t point = text.find('.');
  const int64_t us = integer_of(text.substr(0, point));
  if (point == std::string_view::npos) return saturated(us, 0);
  std::string rest(text.substr(point + 1));
  if (!std::all_of(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    throw JsonError("a time may not have an exponent");
  }
  rest.resize(3, '0');
  const int64_t ns = integer_of(rest);
  return saturated(us, text[0] == '-' ? -ns : ns);
}

}  // namespace tailrace::native
