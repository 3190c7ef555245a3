// Text: digits at their boundaries, JSON strings, UTF-8, and writers that stop at their end.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/text.h"

using namespace tailrace;

namespace {

std::string json(string_view s) {
  std::vector<char> buffer(s.size() * 6 + 2);
  Writer w(buffer.data(), buffer.size());
  w.json(s);
  EXPECT_FALSE(w.overflowed());
  return std::string(w.view());
}

std::string decimal(uint64_t v) {
  char buffer[20];
  return {buffer, static_cast<size_t>(put_decimal(buffer, v) - buffer)};
}

TEST(Digits, DecimalAtEveryPowerOfTen) {
  EXPECT_EQ(decimal(0), "0");
  uint64_t power = 1;
  for (int i = 0; i < 20; ++i, power *= 10) {
    for (uint64_t v : {power - 1, power, power + 1}) EXPECT_EQ(decimal(v), std::to_string(v));
  }
  EXPECT_EQ(decimal(UINT64_MAX), "18446744073709551615");
}

TEST(Digits, DecimalOfManyNumbers) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    uint64_t v = random() >> (random() % 64);
    ASSERT_EQ(decimal(v), std::to_string(v));
    ASSERT_EQ(digit_count(v), std::to_string(v).size());
  }
}

TEST(Digits, HexOfManyNumbers) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    uint64_t v = random() >> (random() % 64);
    char buffer[16], expected[17];
    snprintf(expected, sizeof expected, "%016lx", static_cast<unsigned long>(v));
    ASSERT_EQ(std::string(buffer, put_hex(buffer, v, 16)), expected);
  }
}

TEST(Digits, Signed) {
  for (int64_t v : {int64_t{0}, int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MIN + 1, INT64_MAX}) {
    char buffer[20];
    EXPECT_EQ(std::string(buffer, put_signed(buffer, v)), std::to_string(v));
  }
}

TEST(Digits, ThreeDigitsAndHex) {
  char buffer[16];
  for (unsigned v = 0; v < 1000; ++v) {
    char expected[4];
    snprintf(expected, sizeof expected, "%03u", v);
    ASSERT_EQ(std::string(buffer, put_three_digits(buffer, v)), expected);
  }
  EXPECT_EQ(std::string(buffer, put_hex(buffer, 0x0123456789abcdef, 16)), "0123456789abcdef");
  EXPECT_EQ(std::string(buffer, put_hex(buffer, 0xffffffffffffffff, 4)), "ffff");
  for (uint64_t v : {uint64_t{0}, uint64_t{1}, uint64_t{15}, uint64_t{16}, uint64_t{0xabc}, UINT64_MAX}) {
    Writer w(buffer, sizeof buffer);
    char expected[17];
    snprintf(expected, sizeof expected, "%lx", v);
    w.short_hex(v);
    EXPECT_EQ(w.view(), expected);
  }
}

TEST(Digits, TakeDecimalStopsAtTheLastNumberThatFits) {
  auto take = [](string_view s, uint64_t &v, string_view &rest) {
    bool ok = take_decimal(s, v);
    rest = s;
    return ok;
  };
  uint64_t v = 7;
  string_view rest;
  EXPECT_TRUE(take("18446744073709551615:x", v, rest));
  EXPECT_EQ(v, UINT64_MAX);
  EXPECT_EQ(rest, ":x");
  v = 7;
  for (string_view bad : {"18446744073709551616", "99999999999999999999", "", "x1", "-1", " 1"}) {
    EXPECT_FALSE(take(bad, v, rest)) << bad;
    EXPECT_EQ(v, 7u);
    EXPECT_EQ(rest, bad);
  }
  EXPECT_TRUE(take("00000000000000000000000012", v, rest));
  EXPECT_EQ(v, 12u);
}

TEST(Json, EscapesQuotesAndControls) {
  EXPECT_EQ(json(""), "\"\"");
  EXPECT_EQ(json("plain /path.txt"), "\"plain /path.txt\"");
  EXPECT_EQ(json("\"\\"), R"("\"\\")");
  EXPECT_EQ(json("a\nb\tc"), R"("a\u000ab\u0009c")");
  EXPECT_EQ(json(string_view("\0\x1f\x7f", 3)), R"("\u0000\u001f\u007f")");
  EXPECT_EQ(json("ä€🌊"), "\"ä€🌊\"");
}

TEST(Json, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(json("\xff"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(json("a\xc3z"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(json("\xe2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(json("\xed\xa0\x80").substr(0, 4), "\"\xEF\xBF\xBD");  // a surrogate
}

TEST(Json, OfAnyBytesIsUtf8WithoutControls) {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::string s(random() % 12, 0);
    for (char &c : s) c = static_cast<char>(random());
    std::string out = json(s);
    ASSERT_TRUE(is_utf8(out));
    for (char c : out) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

TEST(Utf8, IsRfc3629) {
  // Every code point is valid in its one form; surrogates and values past U+10FFFF are not.
  auto encode = [](uint32_t c) {
    std::string s;
    if (c < 0x80)
      s = {static_cast<char>(c)};
    else if (c < 0x800)
      s = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    else if (c < 0x10000)
      s = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
           static_cast<char>(0x80 | (c & 63))};
    else
      s = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
           static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    return s;
  };
  for (uint32_t c = 0; c < 0x120000; ++c) {
    std::string s = encode(c);
    bool valid = c < 0xD800 || (c > 0xDFFF && c < 0x110000);
    ASSERT_EQ(utf8_sequence(s, 0), valid ? s.size() : 0u) << std::hex << c;
    if (valid && s.size() > 1) {
      ASSERT_EQ(utf8_sequence(string_view(s).substr(0, s.size() - 1), 0), 0u);
    }
  }
  for (string_view overlong :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF"}) {
    EXPECT_FALSE(is_utf8(overlong));
  }
}

TEST(Writer, StopsAtItsEnd) {
  char buffer[8] = "XXXXXXX";
  Writer w(buffer, 4);
  w << "abc";
  EXPECT_FALSE(w.overflowed());
  w << "de" << 'f';
  EXPECT_TRUE(w.overflowed());
  EXPECT_EQ(w.view(), "abc");
  EXPECT_EQ(buffer[4], 'X');
  EXPECT_STREQ(w.c_str(), "");
  w.truncate(1);
  EXPECT_STREQ(w.c_str(), "a");
}

TEST(Writer, NeverWritesPastItsEnd) {
  for (size_t size = 0; size < 64; ++size) {
    std::vector<char> buffer(size + 8, '#');
    Writer w(buffer.data(), size);
    w << "text";
    w.number(INT64_MIN).hex(1, 16).short_hex(255).json("\x01\xff\"quoted\"");
    w.c_str();
    for (size_t i = size; i < buffer.size(); ++i) ASSERT_EQ(buffer[i], '#');
  }
}

TEST(Hash, Fnv) {
  EXPECT_EQ(fnv32(""), 2166136261u);
  EXPECT_EQ(fnv32("a"), 0xe40c292cu);
  EXPECT_EQ(fnv32("foobar"), 0xbf9cf968u);
  EXPECT_EQ(fnv64("foobar", 6), 0x85944171f73967e8u);
}

}  // namespace
