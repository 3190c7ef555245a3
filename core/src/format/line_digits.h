// Decimal digits as words, for lines that are written by copying: the first digit is in the lowest byte, so that one
// comparison finds how many of two values are the same, and one store writes them.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace tailrace {

constexpr uint64_t kEightDigits = 100'000'000;
constexpr uint64_t kZeros = 0x3030303030303030;  // eight characters

// Three decimal digits, the first in the lowest byte.
struct ThreeDigits {
  uint32_t text[1000];
};
constexpr ThreeDigits make_three_digits() {
  ThreeDigits t{};
  for (uint32_t v = 0; v < 1000; ++v) t.text[v] = kZeros >> 40 | v / 100 | v / 10 % 10 << 8 | v % 10 << 16;
  return t;
}
constexpr ThreeDigits kThreeDigits = make_three_digits();

// Without leading zeros.
inline uint64_t few_digits(uint32_t v, uint32_t &width) {
  width = 1 + (v >= 10) + (v >= 100);
  return kThreeDigits.text[v] >> (24 - 8 * width);
}

// The eight decimal digits of v, which is below 10^8, the first in the lowest byte; each byte holds a digit's value.
// Two, four and eight digits are separated by one multiplication each.
inline uint64_t digit_word(uint32_t v) {
  const uint64_t fours = v / 10000 | static_cast<uint64_t>(v % 10000) << 32;
  const uint64_t hundreds = (fours * 10486) >> 20 & 0x0000007F0000007F;
  const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
  const uint64_t tens = (twos * 103) >> 10 & 0x000F000F000F000F;
  return tens | (twos - 10 * tens) << 8;
}

// The same as characters, without leading zeros.
inline uint64_t left_digits(uint32_t v, uint32_t &width) {
  const uint64_t word = digit_word(v);
  // A zero has one digit.
  const auto zeros = static_cast<uint32_t>(__builtin_ctzll(word | 1ULL << 56)) >> 3;
  width = 8 - zeros;
  return (word | kZeros) >> (8 * zeros);
}

inline void store_word(char *p, uint64_t word) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  memcpy(p, &word, 8);
}

inline uint64_t load_word(const char *p) {
  uint64_t word;
  memcpy(&word, p, 8);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// Copies in steps of 32 bytes, so up to 31 more than `n`.
inline void copy_wide(char *to, const char *from, size_t n) {
  for (size_t i = 0; i < n; i += 32) memcpy(to + i, from + i, 32);
}

}  // namespace tailrace
