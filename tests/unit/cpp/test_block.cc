// Blocks in a file: the walk over headers, torn tails at every length, foreign members, and appends that are whole or
// not at all.
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <random>

#include "segments.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

// A trace file of `n` blocks; where each ends.
std::vector<size_t> write_trace(const std::string &path, int n) {
  std::vector<size_t> ends;
  Segment s(path);
  for (int i = 0; i < n; ++i) {
    s.context(1, "stage=s");
    s.event(Fn::f_fsync, 0, 0, 1);
    EXPECT_EQ(s.seal(), 0);
    s.empty();
    ends.push_back(read_file(path).size());
  }
  return ends;
}

struct Walked {
  int blocks = 0;
  uint64_t offset = 0, torn = 0;
  bool foreign = false;
};

Walked walk(const std::string &path) {
  Walked w;
  int fd = open(path.c_str(), O_RDONLY);
  auto walk = std::make_unique<BlockWalk>(fd, static_cast<uint64_t>(lseek(fd, 0, SEEK_END)));
  BlockPlace place;
  while (walk->next(place)) ++w.blocks;
  w.offset = walk->offset(), w.torn = walk->torn_bytes(), w.foreign = walk->foreign();
  close(fd);
  return w;
}

class Blocks : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "t.pfw.gz";
};

TEST_F(Blocks, ATornTailAtEveryLength) {
  auto ends = write_trace(path_, 3);
  std::string whole = read_file(path_), cut = directory_ / "cut";
  for (size_t n = ends[1]; n <= ends[2]; ++n) {
    write_file(cut, whole.substr(0, n));
    Walked w = walk(cut);
    ASSERT_EQ(w.blocks, n == ends[2] ? 3 : 2) << n;
    ASSERT_EQ(w.offset, n == ends[2] ? ends[2] : ends[1]);
    ASSERT_EQ(w.torn, n - w.offset);
    ASSERT_FALSE(w.foreign);
  }
}

TEST_F(Blocks, AnEmptyFileHasNone) {
  write_file(path_, "");
  Walked w = walk(path_);
  EXPECT_EQ(w.blocks, 0);
  EXPECT_EQ(w.torn, 0u);
}

TEST_F(Blocks, AnotherToolsMemberIsForeign) {
  auto ends = write_trace(path_, 1);
  std::string plain = directory_ / "plain.gz";
  gzFile gz = gzopen(plain.c_str(), "wb");
  std::string text(500, 'x');
  gzwrite(gz, text.data(), static_cast<unsigned>(text.size()));
  gzclose(gz);
  write_file(path_, read_file(path_) + read_file(plain));
  Walked w = walk(path_);
  EXPECT_EQ(w.blocks, 1);
  EXPECT_TRUE(w.foreign);
  EXPECT_EQ(w.offset, ends[0]);
}

TEST_F(Blocks, DamagedHeadersNeverLeadPastTheFile) {
  write_trace(path_, 2);
  std::string whole = read_file(path_), bad = directory_ / "bad";
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 1 + i % 4; ++k)
      damaged[random() % (i % 2 ? damaged.size() : 300)] = static_cast<char>(random());
    write_file(bad, damaged);
    Walked w = walk(bad);
    ASSERT_LE(w.offset, damaged.size());
    ASSERT_LE(w.blocks, 40);
  }
}

TEST_F(Blocks, AnEnormousSizeInAHeaderIsTorn) {
  std::string header = R"({"v":1,"comp":18446744073709551600,"raw":1})";
  const size_t before = kFrameBytes + header.size() + kHeaderCheckBytes;
  std::string room(before + 100 + kGzipTrailerBytes, 0);
  string_view member = frame_member(room.data() + before, 100, header, 0, 1);
  write_file(path_, std::string(member));
  Walked w = walk(path_);
  EXPECT_EQ(w.blocks, 0);
  EXPECT_EQ(w.torn, member.size());
}

TEST_F(Blocks, HeaderNumbers) {
  uint64_t v = 0;
  string_view header = R"({"v":1,"comp":20,"xcomp":5,"host":"\"comp\":9","list":[7,8]})";
  EXPECT_TRUE(header_number(header, "comp", v));
  EXPECT_EQ(v, 20u);
  EXPECT_TRUE(header_number(header, "v", v));
  EXPECT_EQ(v, 1u);
  EXPECT_FALSE(header_number(header, "host", v));
  EXPECT_FALSE(header_number(header, "absent", v));
  EXPECT_FALSE(header_number("", "comp", v));
  EXPECT_FALSE(header_number("{\"comp\"", "comp", v));
}

TEST_F(Blocks, AnAppendIsWholeOrNotAtAll) {
  write_file(path_, "before");
  EXPECT_EQ(append_member(path_.c_str(), "after"), 0);
  EXPECT_EQ(read_file(path_), "beforeafter");
  EXPECT_EQ(append_member((directory_ / "no/such").c_str(), "x"), -ENOENT);
  EXPECT_LT(append_member(directory_.path().c_str(), "x"), 0);
  ASSERT_EQ(symlink(path_.c_str(), (directory_ / "link").c_str()), 0);
  EXPECT_EQ(append_member((directory_ / "link").c_str(), "x"), -ELOOP) << "a link may lead anywhere";
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_LT(append_member(pipe.c_str(), "x"), 0) << "it would wait, or its other end would get the bytes";
  EXPECT_EQ(access(pipe.c_str(), F_OK), 0) << "it is not ours to remove";
  // A limit in the middle of the member: only the old contents stay.
  rlimit old, limited;
  getrlimit(RLIMIT_FSIZE, &old);
  limited = old;
  limited.rlim_cur = 20;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limited);
  int status = append_member(path_.c_str(), std::string(100, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(status, -EFBIG);
  EXPECT_EQ(read_file(path_), "beforeafter");
}

TEST(FileHash, DistinguishesFiles) {
  FileIdentity id{FileType::kRegular, 5, 6, 7};
  uint64_t base = file_hash("/a/path", id);
  EXPECT_EQ(base, file_hash("/a/path", id));
  EXPECT_NE(base, 0u);
  std::vector<uint64_t> others{file_hash("/a/pati", id),
                               file_hash("/a/path/", id),
                               file_hash("", id),
                               file_hash("/a/path", {FileType::kFifo, 5, 6, 7}),
                               file_hash("/a/path", {FileType::kRegular, 4, 6, 7}),
                               file_hash("/a/path", {FileType::kRegular, 5, 5, 7}),
                               file_hash("/a/path", {FileType::kRegular, 5, 6, 0}),
                               file_hash("/a/path", {FileType::kRegular, 6, 5, 7})};
  for (uint64_t other : others) EXPECT_NE(other, base);
}

TEST(FileHash, DoesNotCollideOnManyNames) {
  std::vector<uint64_t> hashes;
  for (int i = 0; i < 200000; ++i) {
    hashes.push_back(file_hash("/scratch/run/tile_" + std::to_string(i) + ".fits", {FileType::kRegular, 1, 1, 1}));
    hashes.push_back(file_hash("/scratch/run/tile.fits", {FileType::kRegular, 1, static_cast<uint64_t>(i) + 2, 1}));
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

TEST(FileHash, ReadsNoByteBeyondTheName) {
  for (size_t n = 0; n < 40; ++n) {
    std::string a(n, 'x'), b = a;
    a += "AAAAAAAA", b += "BBBBBBBB";
    EXPECT_EQ(file_hash({a.data(), n}, {}), file_hash({b.data(), n}, {}));
  }
}

TEST(Names, OfProcessesAndJournalDirectories) {
  char text[256];
  Writer stem(text, sizeof text);
  write_process_stem(stem, "node-1.site_a b", 42, 0x1abc);
  EXPECT_EQ(stem.view(), "node_1.site_a_b-42-1abc");
  Writer directory(text, sizeof text);
  write_journal_directory(directory, "/dev/shm", 1000, "/run");
  char expected[64];
  snprintf(expected, sizeof expected, "/dev/shm/tailrace-1000/%016lx", fnv64("/run", 4));
  EXPECT_EQ(directory.view(), expected);
}

}  // namespace
