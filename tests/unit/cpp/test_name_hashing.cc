// Hashed names: what is kept, what is not, and that there is always room.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "format/name_hashing.h"
#include "format/redaction.h"
#include "format/tags.h"

using namespace tailrace;

namespace {

constexpr const char kKey[] = "000102030405060708090a0b0c0d0e0f";

NameHasher hasher(const char *key = kKey, string_view kept = {}) {
  NameHasher made;
  EXPECT_TRUE(made.set_key(key, kept));
  return made;
}

template <class F>
std::string written(F write, size_t room = 4096) {
  std::string text(room, '\0');
  Writer w(text.data(), text.size());
  write(w);
  EXPECT_FALSE(w.overflowed());
  return std::string(w.view());
}

std::string path(const std::string &text, bool exists = true, const NameHasher &by = hasher()) {
  return written([&](Writer &w) { by.write_path(w, text, exists); });
}

std::string file(const std::string &text, FileType type) {
  return written([&](Writer &w) { hasher().write_file(w, text, type); });
}

std::string tags(const std::string &text) {
  return written([&](Writer &w) { hasher().write_tags(w, text); }, kMaxTagsBytes);
}

// The hash of one part.
std::string hash(const std::string &part) { return path(part); }

TEST(NameHashing, SipHashHasTheTestVectorsOfItsPaper) {
  // Aumasson and Bernstein, "SipHash: a fast short-input PRF", appendix A; the empty text by the authors' vectors.h.
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string text;
  EXPECT_EQ(siphash(key, ""), 0x726fdb47dd0e0e31U);
  for (char c = 0; c < 15; ++c) text += c;
  EXPECT_EQ(siphash(key, text), 0xa129ca6149be45e5U);
}

TEST(NameHashing, OnlyHexDigitsAreAKey) {
  NameHasher made;
  EXPECT_FALSE(made.set_key("", {}));
  EXPECT_FALSE(made.set_key("000102030405060708090a0b0c0d0e0", {}));
  EXPECT_FALSE(made.set_key("000102030405060708090a0b0c0d0e0g", {}));
  EXPECT_FALSE(made.is_on());
}

TEST(NameHashing, EachPartOfAPathHasOneHashWhereverItStands) {
  const std::string secret = hash("secret");
  EXPECT_EQ(secret.size(), 17U);
  EXPECT_EQ(secret[0], '@');
  EXPECT_EQ(path("/home/secret/secret.tar.gz"), "/home/" + secret + "/" + secret + ".tar.gz");
  EXPECT_EQ(path("secret/../x//"), secret + "/../" + hash("x") + "//");
  EXPECT_NE(path("secret", true, hasher("000102030405060708090a0b0c0d0e1f")), secret);
}

TEST(NameHashing, AnEndThatIsNotKnownIsHashed) {
  EXPECT_EQ(path("a.secret").find("secret"), std::string::npos);
  EXPECT_EQ(path("a.secret.csv"), hash("a.secret") + ".csv");
  EXPECT_EQ(path("m.cpython-311.opt-1.pyc"), hash("m") + ".cpython-311.opt-1.pyc");
  EXPECT_EQ(path(".csv"), hash(".csv"));
}

TEST(NameHashing, ExistingFilesOfTheMachineKeepTheirNames) {
  EXPECT_EQ(path("/usr/lib/libc.so.6"), "/usr/lib/libc.so.6");
  EXPECT_EQ(path("/usr/bin/secret", false), "/usr/bin/" + hash("secret"));
  EXPECT_EQ(path("/usr/local/secret"), "/usr/local/" + hash("secret"));
  EXPECT_EQ(path("/usr/../secret"), "/usr/../" + hash("secret"));
  EXPECT_EQ(path("/dev/secret/null"), "/dev/" + hash("secret") + "/null");
  EXPECT_EQ(path("/dev/shm/sem.secret"), "/dev/shm/sem." + hash("secret"));
  EXPECT_EQ(path("/proc/7/io"), "/proc/7/io");
  EXPECT_EQ(path("/proc/7/fd/3"), "/proc/7/fd/3");
  for (const char *out : {"/proc/7/cwd/secret", "/proc/self/root/secret", "/proc/7/fd/3/secret", "/usrsecret"})
    EXPECT_EQ(path(out).find("secret"), std::string::npos) << out;
}

TEST(NameHashing, WhatTheUserKeepsStays) {
  const NameHasher keeps = hasher(kKey, "align:sample_*");
  EXPECT_EQ(path("/data/align/sample_7", true, keeps), "/data/align/sample_7");
  EXPECT_EQ(path("/data/align2", true, keeps), "/data/" + hash("align2"));
}

TEST(NameHashing, NamesThatAreNoPathsKeepTheirForm) {
  EXPECT_EQ(file("pipe:[12]", FileType::kFifo), "pipe:[12]");
  EXPECT_EQ(file("anon_inode:[eventfd]", FileType::kAnonymous), "anon_inode:[eventfd]");
  EXPECT_EQ(file("tcp:127.0.0.1:80->10.0.0.1:5", FileType::kSocket), "tcp:127.0.0.1:80->10.0.0.1:5");
  EXPECT_EQ(file("unix:[1]->[2] /tmp/s", FileType::kSocket), "unix:[1]->[2] /tmp/" + hash("s"));
  EXPECT_EQ(file("unix-dgram:/tmp/s->*", FileType::kSocket), "unix-dgram:/tmp/" + hash("s") + "->*");
  EXPECT_EQ(file("unix-dgram:@s->/t", FileType::kSocket), "unix-dgram:@" + hash("@s") + "->/" + hash("t"));
  EXPECT_EQ(file("mqueue:/q", FileType::kFifo), "mqueue:/" + hash("q"));
  EXPECT_EQ(file("/memfd:m", FileType::kRegular), "/memfd:" + hash("m"));
  EXPECT_EQ(file("/g/d", FileType::kObject), "/" + hash("g") + "/" + hash("d"));
  EXPECT_EQ(file(std::string("r\0compute", 9), FileType::kObject), hash("r") + std::string("\0compute", 8));
  EXPECT_EQ(file("/usr/lib", FileType::kObject), "/usr/lib");
  EXPECT_EQ(file("/usr/secret", FileType::kObject), "/usr/" + hash("secret"));
}

TEST(NameHashing, ALongPathEndsInAHashOfItsRest) {
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "/a";
  const std::string one = written([&](Writer &w) { hasher().write_path(w, deep, false); }, kPathBytes);
  const std::string other = written([&](Writer &w) { hasher().write_path(w, deep + "b", false); }, kPathBytes);
  EXPECT_EQ(one.find("/a"), std::string::npos);
  EXPECT_NE(one, other);
  const std::string wide(4095, 's');
  EXPECT_EQ(path("/" + wide).size(), 18U);
}

TEST(NameHashing, TagsStayCanonicalAndNumbersReadable) {
  EXPECT_EQ(tags("stage=s,task=t,rank=3,try=1"), "stage=" + hash("s") + ",task=" + hash("t") + ",rank=3,try=1");
  EXPECT_EQ(tags("task=a%20b"), "task=" + hash("a b"));
  EXPECT_EQ(tags("task=7,rank=x"), "task=" + hash("7") + ",rank=" + hash("x"));
  std::string many;
  for (int i = 0; i < 60; ++i) many += (i ? ",k" : "k") + std::to_string(i) + "=" + std::string(128, '/');
  EXPECT_LE(tags(many).size(), kMaxTagsBytes);
  std::string short_parts = "region=";
  for (int i = 0; i < 500; ++i) short_parts += "a/";
  TagSet parsed;
  size_t at;
  char text[256];
  Writer fault(text, sizeof text);
  const std::string hashed = tags(short_parts);
  EXPECT_TRUE(parse_tags(hashed, parsed, at, fault, TagsOf::kCore)) << text;
}

// A name of bytes that no hash has and no known name consists of.
std::string secret_of(std::mt19937 &random) {
  std::string text;
  for (unsigned i = 0, n = 4 + random() % 9; i < n; ++i) text += "!%QXZ~"[random() % 6];
  return text;
}

TEST(NameHashing, NoTextOfAnyFormLeavesAPartOfASecret) {
  std::mt19937 random(16);
  const std::vector<std::string> around = {
      "/", "/usr/", "/usr/bin/",   "/proc/self/cwd/", "/dev/shm/", ".csv",    ".so.6",    "->",
      "@", " ",     "unix-dgram:", "unix:[1]->[2] ",  "pipe:[",    "/memfd:", "mqueue:/", "-",
      "=", "..",    "\n",          "anon_inode:",     "sem.",      "pym-1-",  "socket:[", "]"};
  for (int round = 0; round < 20000; ++round) {
    const std::string secret = secret_of(random);
    std::string text;
    for (unsigned i = 0, n = 1 + random() % 5; i < n; ++i) text += around[random() % around.size()];
    text += secret;
    if (random() % 2) text += around[random() % around.size()];
    const auto type = static_cast<FileType>(random() % 10);
    std::string out = path(text, false) + file(text, type == FileType::kRegular ? FileType::kNone : type);
    out += written([&](Writer &w) { hasher().write_argument(w, text); });
    const bool is_kernels = type == FileType::kAnonymous && text.find("anon_inode:") == 0;
    if (NameHasher::is_public(text) || is_kernels) continue;
    EXPECT_EQ(out.find(secret), std::string::npos) << text << " -> " << out;
  }
}

std::string arguments(const std::vector<std::string> &words, const NameHasher *by, const char *exe = "") {
  Redactor redactor(parse_redaction("paths"), by, exe);
  std::string all;
  for (const std::string &word : words) {
    if (!all.empty()) all += ' ';
    all += written([&](Writer &w) { redactor.write(w, word, [](Writer &to, string_view part) { to << part; }); });
  }
  return all;
}

TEST(NameHashing, ArgumentsAreHashedButOptionsOfOneLetter) {
  const NameHasher by = hasher();
  EXPECT_EQ(arguments({"sort", "-k", "-", "in/x.csv"}, &by, "/usr/bin/sort"),
            "sort -k - " + hash("in") + "/" + hash("x") + ".csv");
  EXPECT_EQ(arguments({"sort"}, &by, "/home/me/sort"), hash("sort"));
  EXPECT_EQ(arguments({"a", "--token=x"}, &by).find("token"), std::string::npos);
  EXPECT_EQ(arguments({"a", "-c"}, nullptr), "[redacted] [redacted]") << "without a key nothing is recorded";
}

}  // namespace
