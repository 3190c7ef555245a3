// See json.h.
#include "json.h"

#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tailrace::native {

namespace {

// Deeper than any line of the core's; bounds the recursion on hostile input.
constexpr int kMaxDepth = 200;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

uint32_t hex4(std::string_view raw, size_t at) {
  if (at + 4 > raw.size()) throw JsonError("a \\u escape is cut short");
  uint32_t v = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int d = hex_digit(raw[i]);
    if (d < 0) throw JsonError("a \\u escape has a character that is not hexadecimal");
    v = v * 16 + static_cast<uint32_t>(d);
  }
  return v;
}

void append_utf8(uint32_t c, std::string *out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

bool is_high(uint32_t c) { return c >= 0xD800 && c < 0xDC00; }
bool is_low(uint32_t c) { return c >= 0xDC00 && c < 0xE000; }

// `at` is at the first hex digit of a \u escape; returns the position after the escape.
size_t append_unicode_escape(std::string_view raw, size_t at, std::string *out) {
  uint32_t c = hex4(raw, at);
  at += 4;
  if (is_high(c) && at + 1 < raw.size() && raw[at] == '\\' && raw[at + 1] == 'u') {
    const uint32_t low = hex4(raw, at + 2);
    if (is_low(low)) {
      append_utf8(0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00), out);
      return at + 6;
    }
  }
  append_utf8(is_high(c) || is_low(c) ? 0xFFFD : c, out);
  return at;
}

struct Utf8 {
  size_t bytes;  // of the sequence, or of the longest prefix of one
  bool valid;
};

// The sequence that `s` starts with, by table 3-7 of the Unicode standard.
Utf8 utf8_at(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true};
  size_t need;
  uint8_t low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i <= need; ++i) {
    if (i >= s.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {need + 1, true};
}

const char *read_nested(const char *p, int depth);

const char *read_scalar_or_nested(const char *p, int depth) {
  if (*p == '{' || *p == '[') return read_nested(p, depth + 1);
  Value ignored;
  return read_value(p, &ignored);
}

const char *read_nested(const char *p, int depth) {
  if (depth > kMaxDepth) throw JsonError("values are nested too deeply");
  const bool object = *p == '{';
  const char close = object ? '}' : ']';
  p = skip_blanks(p + 1);
  if (*p == close) return p + 1;
  for (;;) {
    if (object) {
      if (*p != '"') throw JsonError("a key must start with a quote");
      bool escaped = false;
      p = skip_blanks(string_end(p + 1, &escaped) + 1);
      if (*p != ':') throw JsonError("a colon is missing after a key");
      p = skip_blanks(p + 1);
    }
    p = skip_blanks(read_scalar_or_nested(p, depth));
    if (*p == close) return p + 1;
    if (*p != ',') throw JsonError("a comma is missing between values");
    p = skip_blanks(p + 1);
  }
}

const char *digits_end(const char *p) {
  while (*p >= '0' && *p <= '9') ++p;
  return p;
}

const char *number_end(const char *p) {
  if (*p == '-') ++p;
  const char *q = digits_end(p);
  if (q == p) throw JsonError("a value is missing or not JSON");
  if (*q == '.') {
    p = q + 1;
    q = digits_end(p);
    if (q == p) throw JsonError("digits are missing after a decimal point");
  }
  if (*q == 'e' || *q == 'E') {
    p = q + 1;
    if (*p == '+' || *p == '-') ++p;
    q = digits_end(p);
    if (q == p) throw JsonError("digits are missing in an exponent");
  }
  return q;
}

const char *word_end(const char *p, std::string_view word) {
  if (std::strncmp(p, word.data(), word.size()) != 0) throw JsonError("a value is missing or not JSON");
  return p + word.size();
}

}  // namespace

const char *string_end(const char *p, bool *escaped) {
  for (;;) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), newline = _mm_set1_epi8('\n');
    for (;;) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
      const __m128i stop =
          _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)), _mm_cmpeq_epi8(v, newline));
      const int mask = _mm_movemask_epi8(stop);
      if (mask != 0) {
        p += __builtin_ctz(static_cast<unsigned>(mask));
        break;
      }
      p += 16;
    }
#else
    while (*p != '"' && *p != '\\' && *p != '\n') ++p;
#endif
    if (*p == '"') return p;
    if (*p == '\n' || p[1] == '\n') throw JsonError("a string has no closing quote");
    *escaped = true;
    p += 2;
  }
}

const char *read_value(const char *p, Value *value) {
  const char *end;
  value->escaped = false;
  switch (*p) {
    case '"':
      end = string_end(p + 1, &value->escaped);
      value->kind = Value::Kind::kString;
      value->text = {p + 1, static_cast<size_t>(end - p - 1)};
      return end + 1;
    case '{':
      value->kind = Value::Kind::kObject;
      end = read_nested(p, 0);
      break;
    case '[':
      value->kind = Value::Kind::kArray;
      end = read_nested(p, 0);
      break;
    case 't':
      value->kind = Value::Kind::kTrue;
      end = word_end(p, "true");
      break;
    case 'f':
      value->kind = Value::Kind::kFalse;
      end = word_end(p, "false");
      break;
    case 'n':
      value->kind = Value::Kind::kNull;
      end = word_end(p, "null");
      break;
    default: value->kind = Value::Kind::kNumber; end = number_end(p);
  }
  value->text = {p, static_cast<size_t>(end - p)};
  return end;
}

void unescape(std::string_view raw, std::string *out) {
  out->clear();
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\') {
      out->push_back(raw[i++]);
      continue;
    }
    if (i + 1 >= raw.size()) throw JsonError("an escape is cut short");
    const char c = raw[i + 1];
    i += 2;
    switch (c) {
      case '"':
      case '\\':
      case '/': out->push_back(c); break;
      case 'b': out->push_back('\b'); break;
      case 'f': out->push_back('\f'); break;
      case 'n': out->push_back('\n'); break;
      case 'r': out->push_back('\r'); break;
      case 't': out->push_back('\t'); break;
      case 'u': i = append_unicode_escape(raw, i, out); break;
      default: throw JsonError("an escape is not one of JSON's");
    }
  }
}

std::string_view clean_utf8(std::string_view text, std::string *scratch) {
  size_t at = 0;
  while (at < text.size()) {
    // Nearly all names are ASCII.
    if (text.size() - at >= 8 && (load8(text.data() + at) & 0x8080808080808080ULL) == 0) {
      at += 8;
      continue;
    }
    const Utf8 next = utf8_at(text.substr(at));
    if (!next.valid) break;
    at += next.bytes;
  }
  if (at == text.size()) return text;
  std::string clean(text.substr(0, at));
  while (at < text.size()) {
    const Utf8 next = utf8_at(text.substr(at));
    if (next.valid) {
      clean.append(text.substr(at, next.bytes));
    } else {
      append_utf8(0xFFFD, &clean);
    }
    at += next.bytes;
  }
  *scratch = std::move(clean);
  return *scratch;
}

std::string_view text_of(const Value &value, std::string *scratch) {
  if (!value.escaped) return clean_utf8(value.text, scratch);
  std::string plain;
  unescape(value.text, &plain);
  *scratch = std::move(plain);
  return clean_utf8(*scratch, scratch);
}

int64_t integer_of(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  uint64_t v = 0;
  for (const char c : text.substr(negative ? 1 : 0)) {
    if (c < '0' || c > '9') throw JsonError("a whole number is expected, not " + std::string(text.substr(0, 40)));
    const auto digit = static_cast<uint64_t>(c - '0');
    v = v > (limit - digit) / 10 ? limit : v * 10 + digit;
  }
  if (!negative) return static_cast<int64_t>(v);
  return v == limit ? std::numeric_limits<int64_t>::min() : -static_cast<int64_t>(v);
}

}  // namespace tailrace::native
