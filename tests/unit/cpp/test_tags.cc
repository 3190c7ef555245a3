// Tags: the rules, the canonical form, merging two sets, and the encoding of values in both directions.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "format/tags.h"

using namespace tailrace;

namespace {

std::string fault(const std::string &text, size_t *at = nullptr) {
  TagSet set;
  size_t place = 0;
  char buffer[512];
  Writer message(buffer, sizeof buffer);
  if (parse_tags(text, set, place, message)) return "";
  if (at) *at = place;
  EXPECT_FALSE(message.view().empty());
  return std::string(message.view());
}

std::string merge(const std::string &base, const std::string &over, bool *fits = nullptr) {
  TagSet a, b;
  size_t at;
  char ignored[512];
  static char buffer[3 * kMaxTagsBytes];
  Writer message(ignored, sizeof ignored), out(buffer, sizeof buffer);
  EXPECT_TRUE(parse_tags(base, a, at, message)) << base;
  EXPECT_TRUE(parse_tags(over, b, at, message)) << over;
  bool ok = merge_tags(a, b, out);
  if (fits)
    *fits = ok;
  else
    EXPECT_TRUE(ok);
  return std::string(out.view());
}

std::string encode(string_view raw) {
  static char buffer[3 * kMaxTagValueBytes + 16];
  Writer out(buffer, sizeof buffer);
  encode_tag_value(raw, out);
  return std::string(out.view());
}

std::string decode(string_view encoded) {
  static char buffer[3 * kMaxTagValueBytes + 16];
  Writer out(buffer, sizeof buffer);
  decode_tag_value(encoded, out);
  return std::string(out.view());
}

TEST(Tags, ValidTags) {
  for (const char *good : {"", "a=b", "workflow=w,stage=s,task=t,job=j,rank=0,x=y", "z.y-x_1=1", "a=%2C%3D%25",
                           "a=A-z_0.9:/@+", "a=%C3%A4", "a=%20"}) {
    EXPECT_EQ(fault(good), "") << good;
  }
  EXPECT_EQ(fault(std::string(64, 'k') + "=v"), "");
  EXPECT_EQ(fault("k=" + std::string(1024, 'v')), "");
}

TEST(Tags, ABrokenRuleIsNamed) {
  struct {
    const char *text, *rule;
    size_t at;
  } rows[] = {
      {"novalue", "has no '='", 0},
      {"=v", "is empty", 0},
      {"k=", "is empty", 0},
      {"a=b,", "has no '='", 4},
      {",a=b", "has no '='", 0},
      {"a=b,,c=d", "has no '='", 4},
      {"A=b", "is not", 0},
      {"1a=b", "is not", 0},
      {"a b=c", "is not", 0},
      {"a=b,a=c", "is given twice", 4},
      {"a=b c", "percent-encoded", 0},
      {"a=%", "two hex digits", 0},
      {"a=%2", "two hex digits", 0},
      {"a=%2g", "two hex digits", 0},
      {"a=%0a", "control", 0},
      {"a=%0A", "control", 0},
      {"a=%7F", "control", 0},
      {"a=%FF", "UTF-8", 0},
      {"a=%ED%A0%80", "UTF-8", 0},
      {"region=x", "annotations", 0},
      {"a==b", "percent-encoded", 0},
      {"a=b=c", "percent-encoded", 0},
      {"a=\xc3\xa4", "percent-encoded", 0},
  };
  for (auto &row : rows) {
    size_t at = 99;
    std::string message = fault(row.text, &at);
    EXPECT_NE(message.find(row.rule), std::string::npos) << row.text << ": " << message;
    EXPECT_EQ(at, row.at) << row.text;
  }
  EXPECT_NE(fault(std::string(65, 'k') + "=v").find("64 bytes"), std::string::npos);
  EXPECT_NE(fault("k=" + std::string(1025, 'v')).find("1024 bytes"), std::string::npos);
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i ? ",k" : "k") + std::to_string(i) + "=v";
  EXPECT_NE(fault(many).find("64 tags"), std::string::npos);
  EXPECT_NE(fault(std::string(8193, 'x')).find("8192"), std::string::npos);
}

std::string without_empty(string_view tags) {
  char buffer[256];
  Writer out(buffer, sizeof buffer);
  write_without_empty_tags(tags, out);
  EXPECT_EQ(has_empty_tags(tags), out.size() != tags.size());
  return std::string(out.view());
}

TEST(Tags, AnEmptyValueOfTheCoresOwnTakesTheTagAway) {
  TagSet base, over;
  size_t at;
  char words[256], merged[256];
  Writer message(words, sizeof words), out(merged, sizeof merged);
  ASSERT_TRUE(parse_tags("workflow=w,stage=s,task=t,try=1,x=y", base, at, message));
  ASSERT_TRUE(parse_tags("task=,stage=", over, at, message, TagsOf::kCore));
  ASSERT_TRUE(merge_tags(base, over, out));
  // The tags of what is started say so, too; the run's have it not.
  EXPECT_EQ(std::string(out.view()), "workflow=w,stage=,task=,x=y");
  EXPECT_EQ(without_empty(out.view()), "workflow=w,x=y");
  EXPECT_EQ(without_empty("stage=,task="), "");
  EXPECT_EQ(without_empty("task=t,x="), "task=t");
  EXPECT_EQ(without_empty("task=t"), "task=t");
  EXPECT_EQ(without_empty(""), "");
  EXPECT_FALSE(parse_tags("task=", over, at, message, TagsOf::kJob));
}

TEST(Tags, CanonicalOrder) {
  EXPECT_EQ(merge("", "z=1,rank=0,job=j,b=2,task=t,a=3,stage=s,workflow=w,a.b=4,a-b=5"),
            "workflow=w,stage=s,task=t,job=j,rank=0,a=3,a-b=5,a.b=4,b=2,z=1");
}

TEST(Tags, AValueEncodedMoreThanNeededIsTaken) {
  EXPECT_EQ(merge("stage=%41", "task=make%3a1,note=%2c%2C"), "stage=A,task=make:1,note=%2C%2C");
  const std::string longest = "k=" + std::string(1024, 'v');
  std::string encoded = "k=";
  for (int i = 0; i < 1024; ++i) encoded += "%76";
  EXPECT_EQ(merge("", encoded), longest);
}

TEST(Tags, TheLaterValueWins) {
  EXPECT_EQ(merge("stage=a,x=1", "x=2,task=t"), "stage=a,task=t,x=2");
  EXPECT_EQ(merge("a=1", ""), "a=1");
  EXPECT_EQ(merge("", ""), "");
}

TEST(Tags, ATryIsOneOfItsOwnTask) {
  EXPECT_EQ(merge("stage=s,task=a,try=1", "task=b"), "stage=s,task=b");
  EXPECT_EQ(merge("stage=s,try=1", "task=b"), "stage=s,task=b");
  EXPECT_EQ(merge("task=a,try=1", "task=b,try=2"), "task=b,try=2");
  EXPECT_EQ(merge("task=a:1,try=1", "stage=s,task=a%3a1"), "stage=s,task=a:1,try=1");
  EXPECT_EQ(merge("task=a,try=1", "stage=s"), "stage=s,task=a,try=1");
}

TEST(Tags, TogetherTheyKeepTheLimits) {
  std::string a, b;
  for (int i = 0; i < 40; ++i)
    a += (i ? ",a" : "a") + std::to_string(i) + "=v", b += (i ? ",b" : "b") + std::to_string(i) + "=v";
  bool fits;
  merge(a, b, &fits);
  EXPECT_FALSE(fits);
  std::string c, d;
  for (int i = 0; i < 5; ++i) {
    c += (i ? ",c" : "c") + std::to_string(i) + "=" + std::string(1000, 'v');
    d += (i ? ",d" : "d") + std::to_string(i) + "=" + std::string(1000, 'v');
  }
  merge(c, d, &fits);
  EXPECT_FALSE(fits);
}

TEST(Tags, MergingIsStable) {
  // The canonical form is a fixed point, and merging by map gives the same.
  std::mt19937 random(3);
  const char *keys[] = {"workflow", "stage", "task", "job", "rank", "a", "b", "try", "x.y", "x-y"};
  for (int i = 0; i < 2000; ++i) {
    std::map<std::string, std::string> sets[2], expected;
    std::string texts[2];
    for (int s = 0; s < 2; ++s) {
      for (const char *key : keys) {
        if (random() % 2) sets[s][key] = std::to_string(random() % 100);
      }
      for (auto &[key, value] : sets[s]) texts[s] += (texts[s].empty() ? "" : ",") + key + "=" + value;
    }
    expected = sets[1];
    if (sets[1].count("task") && (!sets[0].count("task") || sets[0]["task"] != sets[1]["task"])) sets[0].erase("try");
    expected.insert(sets[0].begin(), sets[0].end());
    std::string merged = merge(texts[0], texts[1]);
    ASSERT_EQ(merge("", merged), merged);
    TagSet set;
    size_t at;
    char text[64];
    Writer message(text, sizeof text);
    ASSERT_TRUE(parse_tags(merged, set, at, message));
    ASSERT_EQ(set.count, expected.size());
    for (auto &[key, value] : expected) ASSERT_EQ(set.find(key)->value, value);
  }
}

TEST(Tags, ValuesSurviveEncoding) {
  std::mt19937 random(4);
  for (int i = 0; i < 20000; ++i) {
    std::string raw;
    for (size_t n = 1 + random() % 30; n > 0; --n) {
      static const char *const parts[] = {"a", "Z", "0", " ", ",", "=", "%", "\"", "\\", "ä", "€", "🌊", "/", "~"};
      raw += parts[random() % (sizeof parts / sizeof *parts)];
    }
    std::string encoded = encode(raw);
    ASSERT_EQ(decode(encoded), raw);
    ASSERT_EQ(fault("k=" + encoded), "") << encoded;
  }
}

TEST(Tags, ValuesOfTheEnvironmentAreMadeValid) {
  std::mt19937 random(5);
  for (int i = 0; i < 5000; ++i) {
    std::string raw(1 + random() % 1500, 0);
    for (char &c : raw) c = static_cast<char>(random() % (i % 2 ? 256 : 128));
    std::string encoded = encode(raw);
    if (!encoded.empty()) {
      ASSERT_EQ(fault("k=" + encoded), "");
    }
  }
  EXPECT_EQ(encode("a\nb\xff"), "ab");
  EXPECT_EQ(encode(std::string(1023, 'v') + "ä"), std::string(1023, 'v'));
}

TEST(Tags, AsJson) {
  TagSet set;
  size_t at;
  char text[64], out[256];
  Writer message(text, sizeof text), json(out, sizeof out);
  ASSERT_TRUE(parse_tags("stage=a%22b,x.y=%C3%A4", set, at, message));
  write_tags_json(set, json);
  EXPECT_EQ(json.view(), ",\"stage\":\"a\\\"b\",\"tag.x.y\":\"ä\"");
}

}  // namespace
