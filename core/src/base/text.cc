// Tables and the slow parts of base/text.h.
#include "base/text.h"

namespace tailrace {

const char kDigitPairs[201] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

unsigned utf8_sequence(string_view s, size_t i) {
  auto at = [&](size_t k) { return k < s.size() ? static_cast<unsigned char>(s[k]) : 0u; };
  auto tail = [&](size_t k) { return (at(k) & 0xC0) == 0x80; };
  unsigned c = at(i);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return tail(i + 1) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) {
    unsigned d = at(i + 1);
    if (!tail(i + 1) || !tail(i + 2) || (c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F)) return 0;
    return 3;
  }
  if (c >= 0xF0 && c <= 0xF4) {
    unsigned d = at(i + 1);
    if (!tail(i + 1) || !tail(i + 2) || !tail(i + 3) || (c == 0xF0 && d < 0x90) || (c == 0xF4 && d > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

bool is_utf8(string_view s) {
  for (size_t i = 0; i < s.size();) {
    unsigned n = utf8_sequence(s, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

char *put_real(char *p, double v) {
  constexpr double kWhole = 9007199254740992.0;
  if (!__builtin_isfinite(v)) {
    for (char c : string_view("null")) *p++ = c;
    return p;
  }
  if (v > -kWhole && v < kWhole && static_cast<double>(static_cast<int64_t>(v)) == v) {
    return put_signed(p, static_cast<int64_t>(v));
  }
  if (v < 0) *p++ = '-';
  long double rest = v < 0 ? -static_cast<long double>(v) : v;
  int exponent = 0;
  for (; rest >= 10; rest /= 10) ++exponent;
  for (; rest < 1; rest *= 10) --exponent;
  const long double scaled = rest * 1e14L;
  auto digits = static_cast<uint64_t>(scaled);
  if (scaled - static_cast<long double>(digits) >= 0.5L) ++digits;
  constexpr uint64_t kBehindThePoint = 100'000'000'000'000;
  p = put_decimal(p, digits / kBehindThePoint);
  *p++ = '.';
  char behind[20];
  const auto n = static_cast<size_t>(put_decimal(behind, digits % kBehindThePoint) - behind);
  for (size_t i = n; i < 14; ++i) *p++ = '0';
  memcpy(p, behind, n);
  p += n;
  if (exponent == 0) return p;
  *p++ = 'e';
  return put_signed(p, exponent);
}

Writer &Writer::json(string_view s) {
  *this << '"';
  json_part(s);
  return *this << '"';
}

Writer &Writer::json_part(string_view s) {
  for (size_t i = 0; i < s.size();) {
    unsigned n = utf8_sequence(s, i);
    auto c = static_cast<unsigned char>(s[i]);
    if (n == 0) {
      *this << "\xEF\xBF\xBD";
      n = 1;
    } else if (c == '"' || c == '\\') {
      *this << '\\' << static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7F) {
      *this << "\\u00";
      hex(c, 2);
    } else {
      *this << slice(s, i, n);
    }
    i += n;
  }
  return *this;
}

bool take_decimal(string_view &s, uint64_t &value) {
  size_t i = 0;
  uint64_t v = 0;
  for (; i < s.size() && s[i] >= '0' && s[i] <= '9'; ++i) {
    auto digit = static_cast<uint64_t>(s[i] - '0');
    if (v > (UINT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  if (i == 0) return false;
  s.remove_prefix(i);
  value = v;
  return true;
}

}  // namespace tailrace
