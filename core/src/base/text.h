// Text without allocation: a bounded writer, decimal and hex digits, JSON strings, FNV hashes.
// The core may not allocate with malloc (it runs inside signal handlers and inside malloc's own I/O), so every
// string is built in a buffer whose end is known.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <string_view>

namespace tailrace {

using std::string_view;

// Unchecked parts of a string: string_view::substr can throw, and the core links no C++ run time.
inline string_view slice(string_view s, size_t from, size_t n) { return {s.data() + from, n}; }
// Calls f(part) for each part between separators, at least once; false as soon as f returns false.
template <class F>
bool each_part(string_view text, char separator, F f) {
  for (size_t at = 0; at <= text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] != separator) ++end;
    if (!f(slice(text, at, end - at))) return false;
    at = end + 1;
  }
  return true;
}
// Sets the bit of each name in a list with commas, by its place in `names`. False as soon as one is none of these.
template <size_t N>
bool read_names(string_view list, const string_view (&names)[N], uint32_t &bits) {
  static_assert(N < 32, "a bit for each");
  bits = 0;
  return each_part(list, ',', [&](string_view name) {
    for (size_t i = 0; i < N; ++i) {
      if (names[i] != name) continue;
      bits |= 1U << i;
      return true;
    }
    return false;
  });
}
inline bool starts_with(string_view s, string_view prefix) {
  return s.size() >= prefix.size() && memcmp(s.data(), prefix.data(), prefix.size()) == 0;
}

constexpr uint32_t fnv32(string_view s) {
  uint32_t h = 2166136261u;
  for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

constexpr uint64_t kFnv64Seed = 14695981039346656037ULL;
inline uint64_t fnv64(const void *data, size_t n, uint64_t h = kFnv64Seed) {
  const auto *p = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < n; ++i) h = (h ^ p[i]) * 1099511628211ULL;
  return h;
}

// The pairs of digits 00..99: two digits for one division.
extern const char kDigitPairs[201];

inline unsigned digit_count(uint64_t v) {
  unsigned n = 1;
  for (;;) {
    if (v < 10) return n;
    if (v < 100) return n + 1;
    if (v < 1000) return n + 2;
    if (v < 10000) return n + 3;
    v /= 10000;
    n += 4;
  }
}

// Exactly eight digits, v below 10^8, with only two dependent divisions.
inline char *put_eight_digits(char *p, uint32_t v) {
  uint32_t high = v / 10000, low = v % 10000;
  memcpy(p, kDigitPairs + 2 * (high / 100), 2);
  memcpy(p + 2, kDigitPairs + 2 * (high % 100), 2);
  memcpy(p + 4, kDigitPairs + 2 * (low / 100), 2);
  memcpy(p + 6, kDigitPairs + 2 * (low % 100), 2);
  return p + 8;
}

// Writes v in decimal at p, no terminator; returns the end. At most 20 bytes.
inline char *put_decimal(char *p, uint64_t v) {
  constexpr uint64_t kEightDigits = 100'000'000;
  if (v >= kEightDigits) {
    p = put_decimal(p, v / kEightDigits);
    return put_eight_digits(p, static_cast<uint32_t>(v % kEightDigits));
  }
  char *end = p + digit_count(v);
  char *q = end;
  while (v >= 100) {
    q -= 2;
    memcpy(q, kDigitPairs + 2 * (v % 100), 2);
    v /= 100;
  }
  if (v >= 10) {
    memcpy(q - 2, kDigitPairs + 2 * v, 2);
  } else {
    q[-1] = static_cast<char>('0' + v);
  }
  return end;
}

inline char *put_signed(char *p, int64_t v) {
  if (v >= 0) return put_decimal(p, static_cast<uint64_t>(v));
  *p++ = '-';
  return put_decimal(p, ~static_cast<uint64_t>(v) + 1);
}

// A JSON number to 15 digits, or null where it isn't finite; at most 24 bytes. Without libc, whose functions may
// allocate.
char *put_real(char *p, double v);

// Exactly three digits, v below 1000.
inline char *put_three_digits(char *p, unsigned v) {
  p[0] = static_cast<char>('0' + v / 100);
  memcpy(p + 1, kDigitPairs + 2 * (v % 100), 2);
  return p + 3;
}

// The eight hexadecimal digits of v, the first in the lowest byte. Each byte holds one digit's value; all become
// characters at once.
constexpr uint64_t hex_digits(uint32_t v) {
  uint64_t x = __builtin_bswap32(v);
  x = (x & 0xFFFF0000) << 16 | (x & 0xFFFF);
  x = (x & 0x0000FF000000FF00) << 8 | (x & 0x000000FF000000FF);
  x = (x & 0x000F000F000F000F) << 8 | (x >> 4 & 0x000F000F000F000F);
  uint64_t letters = (x + 0x0606060606060606) >> 4 & 0x0101010101010101;
  return x + 0x3030303030303030 + letters * ('a' - '0' - 10);
}

inline char *put_hex(char *p, uint64_t v, int digits) {
  if (digits == 16) {
    uint64_t high = hex_digits(static_cast<uint32_t>(v >> 32)), low = hex_digits(static_cast<uint32_t>(v));
    memcpy(p, &high, 8);
    memcpy(p + 8, &low, 8);
    return p + 16;
  }
  for (int i = digits - 1; i >= 0; --i, v >>= 4) p[i] = "0123456789abcdef"[v & 15];
  return p + digits;
}

inline char *put(char *p, string_view s) {
  memcpy(p, s.data(), s.size());
  return p + s.size();
}

// A writer that stops at the end of its buffer and remembers the overflow.
class Writer {
 public:
  Writer(char *begin, size_t size) : begin_(begin), p_(begin), end_(begin + size) {}

  Writer &operator<<(string_view s) {
    if (need(s.size())) p_ = put(p_, s);
    return *this;
  }
  Writer &operator<<(const char *s) { return *this << string_view(s); }
  Writer &operator<<(char c) {
    if (need(1)) *p_++ = c;
    return *this;
  }
  Writer &number(int64_t v) {
    if (need(20)) p_ = put_signed(p_, v);
    return *this;
  }
  Writer &hex(uint64_t v, int digits) {
    if (need(static_cast<size_t>(digits))) p_ = put_hex(p_, v, digits);
    return *this;
  }
  // `v` in lower-case hex without leading zeros.
  Writer &short_hex(uint64_t v) {
    int digits = 1;
    while (digits < 16 && v >> (4 * digits)) ++digits;
    return hex(v, digits);
  }
  // A JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD.
  Writer &json(string_view s);
  // The same without the quotes.
  Writer &json_part(string_view s);

  bool overflowed() const { return overflowed_; }
  string_view view() const { return {begin_, static_cast<size_t>(p_ - begin_)}; }
  size_t size() const { return static_cast<size_t>(p_ - begin_); }
  size_t room() const { return static_cast<size_t>(end_ - p_); }
  // Takes the next `n` bytes as written.
  void extend(size_t n) {
    if (need(n)) p_ += n;
  }
  void truncate(size_t size) {
    p_ = begin_ + size;
    overflowed_ = false;
  }
  // Terminates the text for a system call; on overflow the string is empty.
  const char *c_str() {
    if (overflowed_ || p_ == end_) return "";
    *p_ = 0;
    return begin_;
  }

 private:
  bool need(size_t n) {
    if (static_cast<size_t>(end_ - p_) >= n && !overflowed_) return true;
    overflowed_ = true;
    return false;
  }
  char *begin_, *p_, *end_;
  bool overflowed_ = false;
};

inline void put_json_part(Writer &out, string_view part) { out.json_part(part); }

// Length of the UTF-8 sequence at s[i] (1 to 4), or 0 where there is none (RFC 3629: no overlong forms, no surrogates).
unsigned utf8_sequence(string_view s, size_t i);
bool is_utf8(string_view s);

// Parses decimal digits at the front of s and removes them; false when there are none or they don't fit.
bool take_decimal(string_view &s, uint64_t &value);

}  // namespace tailrace
