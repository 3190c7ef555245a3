// A journal segment in memory or in a file, filled by hand as session/record.cc fills one, and the trace file that it
// is sealed to, read back.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "format/seal.h"

namespace tailrace::test {

// A directory that is removed with the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/tailrace-unit-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() {
    std::string command = "rm -rf '" + path_ + "'";
    if (system(command.c_str()) != 0) perror("rm");
  }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

// A test that has a trace file.
class TraceFileTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string trace_ = directory_ / "t.pfw.gz";
};

inline std::string read_file(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

inline void write_file(const std::string &path, const std::string &data) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(data.data(), static_cast<std::streamsize>(data.size()));
}

class Segment {
 public:
  // In memory, or in `file` (a journal that seal_dead_journals finds).
  explicit Segment(const std::string &trace_path, const std::string &file = "", uint32_t index = 0, int pid = 7) {
    int fd = -1;
    if (!file.empty()) {
      fd = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      EXPECT_EQ(ftruncate(fd, static_cast<off_t>(segment_bytes(kSegmentSlots))), 0);
    }
    map_ = mmap(nullptr, segment_bytes(kSegmentSlots), PROT_READ | PROT_WRITE,
                fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    SegmentHeader &h = *header();
    h.magic = kJournalMagic;
    h.version = kJournalVersion;
    h.slots = kSegmentSlots;
    h.allocated_slots.store(kSegmentSlots);
    h.segment = index;
    h.pid = pid;
    h.pid_namespace = pid_namespace();
    h.start_realtime_ns = 1'700'000'000'000'000'000;
    h.start_monotonic_ns = 5'000'000'000;
    h.reference_rate_q32 = 1ULL << 32;
    h.clock_kind = static_cast<uint32_t>(ClockKind::kMonotonic);
    h.epoch.store(1);
    h.from_ticks = h.from_ns = 5'000'000'000;
    h.first_tid = 70;
    h.host_bytes = 6;
    memcpy(h.host, "node-1", 6);
    h.path_bytes = static_cast<uint32_t>(trace_path.size());
    memcpy(h.trace_path, trace_path.c_str(), trace_path.size() + 1);
  }
  ~Segment() { munmap(map_, segment_bytes(kSegmentSlots)); }
  Segment(const Segment &) = delete;
  Segment &operator=(const Segment &) = delete;

  SegmentHeader *header() const { return static_cast<SegmentHeader *>(map_); }
  uint32_t used() const { return used_; }
  void rewind() { used_ = 0; }

  void text_record(RecordKind kind, uint32_t id, const std::string &text, uint64_t hash = 0,
                   const FileIdentity &file = {}) {
    HeadSlot head{};
    head.id = kind == kNameRecord ? static_cast<uint32_t>(file.type) : id;
    head.hash = hash;
    head.dev = file.dev;
    head.ino = file.ino;
    head.btime_ns = file.btime_ns;
    head.block_bytes = file.block_bytes;
    write_text_record(header()->slot(used_), kind, epoch(), head, text);
    used_ += 1 + text_slots(text.size());
  }
  uint64_t name(const std::string &path, const FileIdentity &file = {FileType::kRegular, 254ULL << 32 | 1, 123, 99}) {
    uint64_t hash = file_hash(path, file);
    text_record(kNameRecord, 0, path, hash, file);
    return hash;
  }
  void context(uint32_t id, const std::string &tags) { text_record(kContextRecord, id, tags); }
  void thread(uint32_t tid) {
    auto *head = reinterpret_cast<HeadSlot *>(header()->slot(used_++));
    head->tid = tid;
    head->mark.store(make_mark(kThreadRecord, epoch()));
  }
  Slot *event(Fn fn, uint64_t file, int64_t ret, uint32_t context = 1, uint64_t count = 0, int64_t offset = -1,
              uint64_t file2 = 0) {
    Slot *s = header()->slot(used_++);
    s->context = context;
    s->t0 = 5'000'000'000 + 1000ULL * ++events_ + 1;
    s->t1 = s->t0 + 204;
    s->file = file;
    s->file2 = file2;
    s->offset = offset;
    s->count = count;
    s->ret = ret;
    s->mark.store(make_mark(static_cast<uint16_t>(fn), epoch()));
    return s;
  }
  // A slot that was reserved and never marked: its process died before.
  void torn() { ++used_; }

  int seal(SealTotals *totals = nullptr, uint64_t *unwritten = nullptr) {
    SealScratch *scratch = make_seal_scratch();
    ClockSample now{9'000'000'000, 9'000'000'000};
    int status = seal_segment(*header(), used_, *scratch, now, totals, unwritten);
    free_seal_scratch(scratch);
    return status;
  }
  void empty() {
    empty_segment(*header(), {9'000'000'000, 9'000'000'000}, 1ULL << 32, 71);
    used_ = 0;
  }

 private:
  uint16_t epoch() { return static_cast<uint16_t>(header()->epoch.load()); }
  void *map_;
  uint32_t used_ = 0;
  uint64_t events_ = 0;
};

struct Block {
  std::string header, json;
  std::vector<std::string> lines;
};

// Every block of a trace file: found by the walk, inflated by zlib, which checks the checksum and the length.
inline std::vector<Block> read_blocks(const std::string &path) {
  std::vector<Block> blocks;
  std::string data = read_file(path);
  int fd = open(path.c_str(), O_RDONLY);
  auto walk = std::make_unique<BlockWalk>(fd, data.size());
  BlockPlace place;
  while (walk->next(place)) {
    Block b;
    b.header = std::string(place.header);
    uint64_t raw = 0;
    EXPECT_TRUE(header_number(place.header, "raw", raw));
    b.json.resize(raw + 1);
    z_stream z{};
    inflateInit2(&z, 15 + 16);
    z.next_in = reinterpret_cast<Bytef *>(data.data() + place.offset);
    z.avail_in = static_cast<uInt>(place.member_bytes);
    z.next_out = reinterpret_cast<Bytef *>(b.json.data());
    z.avail_out = static_cast<uInt>(b.json.size());
    EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
    EXPECT_EQ(z.avail_in, 0u) << "the member has the length in its header";
    b.json.resize(z.total_out);
    inflateEnd(&z);
    EXPECT_EQ(b.json.size(), raw);
    std::istringstream in(b.json);
    for (std::string line; std::getline(in, line);) b.lines.push_back(line);
    blocks.push_back(std::move(b));
  }
  EXPECT_EQ(walk->torn_bytes(), 0u);
  close(fd);
  return blocks;
}

inline uint64_t number(const Block &b, string_view key) {
  uint64_t v = 0;
  EXPECT_TRUE(header_number(b.header, key, v)) << key << " in " << b.header;
  return v;
}

inline int count(const std::string &text, const std::string &part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace tailrace::test
