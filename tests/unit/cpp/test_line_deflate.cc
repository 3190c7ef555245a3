// Streams and lines that are written from knowledge of what repeats: zlib reads them, and the text is what it would be
// without that knowledge.
#include <gtest/gtest.h>
#include <inttypes.h>
#include <zlib.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "format/crc32.h"
#include "format/event_args.h"
#include "format/line_deflate.h"
#include "segments.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

constexpr size_t kSlack = 64;

std::string inflated(const std::string &stream, size_t most) {
  std::string out(most + 1, '\0');
  z_stream z{};
  inflateInit2(&z, -15);
  z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(stream.data()));
  z.avail_in = static_cast<uInt>(stream.size());
  z.next_out = reinterpret_cast<Bytef *>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END) << (z.msg ? z.msg : "");
  EXPECT_EQ(z.avail_in, 0u);
  out.resize(z.total_out);
  inflateEnd(&z);
  return out;
}

// A text that grows as a stream is told of it, with a canary behind the stream.
class Stream {
 public:
  explicit Stream(size_t text_bytes, size_t room = 0)
      : text_(text_bytes + kSlack, '\0'),
        out_((room ? room : 2 * text_bytes + LineDeflate::kLeastRoom) + kSlack, '\x5A'),
        room_(out_.size() - kSlack),
        deflate_(std::make_unique<LineDeflate>()) {
    deflate_->begin(text_.data(), out_.data(), room_);
  }
  void repeat(size_t distance, size_t n) {
    for (size_t i = 0; i < n; ++i) text_[used_ + i] = text_[used_ + i - distance];
    used_ += n;
    deflate_->repeat(distance, n);
  }
  void write(const std::string &s) {
    text_.replace(used_, s.size(), s);
    used_ += s.size();
  }
  void add(const std::string &s) { write(s), deflate_->add(s.size()); }
  void search(const std::string &s) { write(s), deflate_->search(s.size()); }
  void follow(size_t distance, const std::string &s) {
    const char *earlier = distance ? text_.data() + used_ - distance : nullptr;
    write(s);
    deflate_->follow(earlier, s.size());
  }
  size_t used() const { return used_; }
  // The stream; empty when it did not fit.
  std::string finish() {
    const size_t n = deflate_->finish();
    EXPECT_EQ(out_.substr(room_), std::string(kSlack, '\x5A')) << "written past its end";
    return out_.substr(0, n);
  }
  std::string text() const { return text_.substr(0, used_); }
  void check() {
    const std::string stream = finish();
    ASSERT_FALSE(stream.empty());
    EXPECT_TRUE(inflated(stream, used_) == text());
  }

 private:
  std::string text_, out_;
  size_t room_, used_ = 0;
  std::unique_ptr<LineDeflate> deflate_;
};

std::string random_text(std::mt19937 &random, size_t n, int kinds) {
  std::string s(n, '\0');
  for (char &c : s) c = static_cast<char>(random() % static_cast<unsigned>(kinds) + (kinds < 200 ? '0' : 0));
  return s;
}

TEST(LineDeflate, SmallTexts) {
  Stream(0).check();
  for (const char *text : {"a", "ab", "{}\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    Stream added(100), searched(100);
    added.add(text), searched.search(text);
    added.check(), searched.check();
  }
}

TEST(LineDeflate, EveryLengthAndDistance) {
  std::mt19937 random(1);
  Stream s(4'000'000);
  s.add(random_text(random, LineDeflate::kMaxDistance, 256));
  for (size_t n = 1; n < 1100; ++n) s.repeat(1 + random() % LineDeflate::kMaxDistance, n), s.add("x");
  for (size_t d = 1; d <= LineDeflate::kMaxDistance; d += d < 600 ? 1 : 997) s.repeat(d, 3 + d % 300), s.add("y");
  s.repeat(LineDeflate::kMaxDistance, LineDeflate::kMaxDistance);
  s.repeat(1, 100'000);
  s.check();
}

// Kinds of text that are easy and hard to code, in every order: tables change between blocks.
TEST(LineDeflate, AnyOrderOfCalls) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    Stream s(1'200'000);
    const size_t end = seed % 4 ? 30'000 * seed : 100 * seed;
    while (s.used() < end && s.used() < 1'100'000) {
      const std::string text = random_text(random, random() % (random() % 30 ? 30 : 9000), random() % 2 ? 10 : 256);
      const size_t far = s.used() ? 1 + random() % std::min(s.used(), LineDeflate::kMaxDistance) : 0;
      switch (random() % 4) {
        case 0: s.add(text); break;
        case 1: s.search(text); break;
        case 2:
          s.follow(random() % 9 ? far : 0,
                   random() % 2 && far > 600 ? s.text().substr(s.used() - far, 500) + text : text);
          break;
        default:
          if (far) s.repeat(far, random() % 700);
      }
    }
    s.check();
  }
}

TEST(LineDeflate, WhatDoesNotFitIsGivenUp) {
  std::mt19937 random(2);
  for (size_t room : {LineDeflate::kLeastRoom, LineDeflate::kLeastRoom + 1, size_t{100'000}, size_t{131'000}}) {
    Stream s(400'000, room);
    while (s.used() < 390'000) s.add(random_text(random, random() % 6000, 256)), s.repeat(s.used(), s.used() < 30'000);
    EXPECT_TRUE(s.finish().empty());
  }
}

TEST(LineDeflate, StoredText) {
  std::mt19937 random(3);
  for (size_t n : {0, 1, 65534, 65535, 65536, 131070, 200'000}) {
    const std::string text = random_text(random, n, 256);
    std::string out(stored_bound(n), '\0');
    out.resize(store_text(text.data(), n, out.data()));
    EXPECT_TRUE(inflated(out, n) == text) << n;
  }
}

TEST(Crc32, IsZlibs) {
  std::mt19937 random(4);
  const std::string text = random_text(random, 70'000, 256);
  for (size_t n = 0; n < 400; ++n) {
    for (size_t from : {0, 1, 7}) {
      ASSERT_EQ(crc32_of(text.data() + from, n),
                crc32(0, reinterpret_cast<const Bytef *>(text.data()) + from, static_cast<uInt>(n)));
    }
  }
  EXPECT_EQ(crc32_of(text.data(), text.size()), crc32(0, reinterpret_cast<const Bytef *>(text.data()), 70'000));
}

// Lines that are copied from earlier ones and patched are those that each call alone has.
TEST(LineWriter, ALineIsTheSameAfterAnyOthers) {
  TemporaryDirectory directory;
  constexpr Fn kFunctions[] = {Fn::f_read,  Fn::f_write, Fn::f_pread64, Fn::f_openat, Fn::f_close,   Fn::f_mmap,
                               Fn::f_fgetc, Fn::f_fread, Fn::f_rename,  Fn::f_wait4,  Fn::f_H5Dread, Fn::f_lseek};
  constexpr int64_t kValues[] = {0,
                                 1,
                                 -1,
                                 -2,
                                 9,
                                 10,
                                 999,
                                 1000,
                                 99'999'999,
                                 100'000'000,
                                 4096,
                                 8192,
                                 (1LL << 53) - 1,
                                 1LL << 53,
                                 9'999'999'999'999'999,
                                 INT64_MAX,
                                 INT64_MAX - 1};
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    auto value = [&] {
      return random() % 3 ? static_cast<int64_t>(random() % 5000) : kValues[random() % std::size(kValues)];
    };
    // In some runs the last digits of offsets come again, as where blocks of one size are read.
    int64_t at = 99'000'000;
    auto place = [&] { return seed % 3 ? value() : at += random() % 9 ? 4096 : 4096 * 125 * (random() % 30); };
    struct Call {
      Fn fn;
      int64_t ret, offset;
      uint64_t count, file, file2, t0, t1;
      uint32_t context;
      bool other_thread;
    };
    const unsigned files = seed % 3 ? 5 : 400;
    std::vector<Call> calls(seed % 2 ? 900 : 60);
    uint64_t t = 5'000'000'000;
    for (size_t i = 0; i < calls.size(); ++i) {
      Call &c = calls[i];
      c = {kFunctions[random() % (seed % 4 + 1) * 3 % std::size(kFunctions)],
           value(),
           place(),
           static_cast<uint64_t>(value()),
           random() % 9 ? random() % files + 1 : 0,
           random() % 2 ? random() % files + 1 : 0,
           0,
           0,
           static_cast<uint32_t>(1 + random() % 3),
           random() % 8 == 0};
      // Most calls come again, with other times and offsets.
      if (i > 0 && random() % 4 != 0) {
        const int64_t offset = c.offset;
        c = calls[i - 1 - random() % std::min<size_t>(i, 7)];
        if (c.offset >= 0) c.offset = offset;
      }
      c.t0 = t += random() % 50 ? random() % 3000 : random() % 4'000'000'000 * 50;
      c.t1 = c.t0 + random() % (random() % 20 ? 2000 : 300'000'000'000);
    }
    auto fill = [&](Segment &s, const std::vector<uint64_t> &hashes, const Call &c) {
      const bool second = c.fn == Fn::f_rename;
      Slot *slot = s.event(c.fn, c.file ? hashes[c.file - 1] : 0, c.ret, c.context, c.count, c.offset,
                           second && c.file2 ? hashes[c.file2 - 1]
                           : second          ? 0
                                             : c.file2 % 3);
      slot->t0 = c.t0;
      slot->t1 = c.t1;
    };
    auto begin = [&](Segment &s, const std::vector<unsigned> &named) {
      s.context(1, "workflow=w,stage=s");
      s.context(2, "stage=\xC3\xA9");  // no tags
      s.context(3, "stage=s,task=" + std::string(30, 't'));
      std::vector<uint64_t> hashes(files);
      for (unsigned i : named) hashes[i] = s.name("/data/" + std::string(i % 40, 'd') + std::to_string(i));
      return hashes;
    };
    std::vector<unsigned> all;
    for (unsigned i = 0; i < files; ++i) all.push_back(i);
    const std::string path = directory / ("all" + std::to_string(seed)),
                      alone = directory / ("alone" + std::to_string(seed));
    Segment together(path);
    const std::vector<uint64_t> hashes = begin(together, all);
    uint32_t thread = 70;
    std::vector<uint32_t> threads;
    for (const Call &c : calls) {
      if (c.other_thread) together.thread(thread = thread == 70 ? 71 : 70);
      threads.push_back(thread);
      fill(together, hashes, c);
    }
    ASSERT_LT(together.used(), kSegmentSlots);
    ASSERT_EQ(together.seal(), 0);
    std::vector<std::string> lines, single;
    for (const Block &b : read_blocks(path)) {
      for (const std::string &line : b.lines) {
        if (line.find("\"ph\":\"X\"") != std::string::npos) lines.push_back(line);
      }
    }
    for (size_t i = 0; i < calls.size(); i += calls.size() / 60 + (i < 30 ? 0 : 1)) {
      unlink(alone.c_str());
      Segment s(alone);
      std::vector<unsigned> named;
      if (calls[i].file) named.push_back(static_cast<unsigned>(calls[i].file - 1));
      if (calls[i].file2) named.push_back(static_cast<unsigned>(calls[i].file2 - 1));
      const std::vector<uint64_t> own = begin(s, named);
      s.thread(threads[i]);
      fill(s, own, calls[i]);
      ASSERT_EQ(s.seal(), 0);
      ASSERT_LT(i, lines.size());
      EXPECT_EQ(lines[i], read_blocks(alone)[0].lines.back()) << "seed " << seed << ", call " << i;
    }
    ASSERT_EQ(lines.size(), calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      const uint64_t ns = 1'700'000'000'000'000'000 - 5'000'000'000 + calls[i].t0, took = calls[i].t1 - calls[i].t0;
      char times[80];
      snprintf(times, sizeof times, "\"ts\":%" PRIu64 ",\"dur\":%" PRIu64 ".%03u,", ns / 1000, took / 1000,
               static_cast<unsigned>(took % 1000));
      EXPECT_NE(lines[i].find(times), std::string::npos) << lines[i];
      EXPECT_NE(lines[i].find("\"ns\":" + std::to_string(ns % 1000) + ","), std::string::npos) << lines[i];
    }
  }
}

// A path of bytes that are hard to code, and of the greatest length, leaves a block that can be read.
TEST(LineWriter, HostileNames) {
  TemporaryDirectory directory;
  Segment s(directory / "t");
  s.context(1, "stage=s");
  std::mt19937 random(5);
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {
    paths.push_back("/" + random_text(random, i % 4 ? 4000 : random() % 100, i % 3 ? 256 : 90));
    const uint64_t file = s.name(paths.back());
    s.event(Fn::f_read, file, 1, 1, 1);
    s.event(Fn::f_stat, file, 0, 1, 1);
  }
  ASSERT_LT(s.used(), kSegmentSlots);
  ASSERT_EQ(s.seal(), 0);
  uint64_t events = 0;
  for (const Block &b : read_blocks(directory / "t")) events += number(b, "events");
  EXPECT_EQ(events, 80u);
}

TEST(LineWriter, FieldsTellEachObstacle) {
  for (int i = 1; i < static_cast<int>(Obstacle::kCount); ++i) {
    const size_t field = static_cast<size_t>(LineField::kUntraced) + static_cast<size_t>(i);
    EXPECT_EQ(std::string(kFieldTexts[field]), ",\"untraced\":\"" + std::string(kObstacleNames[i]) + '"');
  }
}

}  // namespace
