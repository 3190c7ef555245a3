// The node's sealer, one step at a time: what is handed over is sealed once and given back, wherever a sealer dies.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "format/node_sealer.h"
#include "segments.h"
#include "stopped.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

class NodeSealerTest : public ::testing::Test {
 protected:
  static constexpr const char *kName = "node_1-7-1.0.tj";

  void SetUp() override {
    journals_ = directory_ / "tailrace-x";
    trace_ = directory_ / "trace";
    for (const auto &path : {journals_, trace_}) ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    directory_fd_ = open(journals_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_segment();
  }
  void TearDown() override { close(directory_fd_); }

  static std::string own_name(int pid) {
    char name[200];
    Writer w(name, sizeof name);
    write_process_stem(w, "node-1", pid, 1'700'000'000'000'000'000);
    return std::string(w.view()) + ".pfw.gz";
  }
  void hand_over() {
    header().first_slot.store(0);
    header().claimed.store(0);
    header().until_ticks = header().until_ns = 9'000'000'000;
    header().holding.store(kHanded);
  }
  SegmentHeader &header() { return *segment_->header(); }
  Outcome look(Sealing &sealing) {
    uint64_t until_ns = 0;
    FirstLook first;
    return sealing.look(directory_fd_, kName, geteuid(), Look::kQuick, first, &until_ns);
  }
  Outcome seal(Sealing &sealing) { return sealing.seal_handed(directory_fd_, kName, geteuid()); }
  std::string file(int n) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    char name[300];
    Writer w(name, sizeof name);
    write_file_host(w, host);
    w << '.';
    w.number(n);
    return trace_ + "/" + std::string(w.view()) + ".pfw.gz";
  }
  off_t bytes(int n) {
    struct stat s {};
    return stat(file(n).c_str(), &s) == 0 ? s.st_size : -1;
  }

  TemporaryDirectory directory_;
  std::string journals_, trace_;
  int directory_fd_ = -1;
  void make_segment() {
    segment_ = std::make_unique<Segment>(trace_ + "/" + own_name(getpid()), journals_ + "/" + kName, 0, getpid());
    for (int i = 0; i < 100; ++i) segment_->event(Fn::f_fsync, 0, 0, 1);
    hand_over();
  }

  std::unique_ptr<Segment> segment_;
  SealedJournals result_;
};

TEST_F(NodeSealerTest, WhatIsHandedOverIsSealedAndGivenBack) {
  Sealing sealing(trace_, result_);
  EXPECT_EQ(look(sealing), Outcome::kHanded);
  ASSERT_EQ(seal(sealing), Outcome::kSealed);
  EXPECT_EQ(header().holding.load(), kSpare);
  EXPECT_EQ(header().claimed.load(), 0u);
  EXPECT_EQ(header().first_slot.load(), kSegmentSlots);
  auto blocks = read_blocks(file(0));
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(number(blocks[0], "events"), 100u);
  EXPECT_EQ(look(sealing), Outcome::kAlive);
}

TEST_F(NodeSealerTest, AFileIsInTheManifestOnceItsSealerEnds) {
  std::string name = file(0).substr(trace_.size() + 1), host = name.substr(0, name.size() - strlen(".0.pfw.gz"));
  auto manifest = directory_ / ("manifest/" + host + ".jsonl");
  {
    Sealing sealing(trace_, result_);
    ASSERT_EQ(seal(sealing), Outcome::kSealed);
    EXPECT_NE(access(manifest.c_str(), F_OK), 0);
    ASSERT_EQ(sealing.seal_dead((directory_ / "tailrace-none").c_str()), 0);
  }
  std::string line = read_file(manifest);
  std::string text = "{\"file\":\"" + name + "\",\"blocks\":1";
  char crc[9];
  snprintf(crc, sizeof crc, "%08x", crc32_of(text.data(), text.size()));
  EXPECT_EQ(line, text + ",\"crc\":\"" + crc + "\"}\n") << "once, though the sealer has ended, too";
}

TEST_F(NodeSealerTest, LossesAreTheProcesssToReport) {
  header().lost[static_cast<int>(Loss::kNoJournal)].store(3);
  Sealing sealing(trace_, result_);
  ASSERT_EQ(seal(sealing), Outcome::kSealed);
  EXPECT_EQ(header().lost[static_cast<int>(Loss::kNoJournal)].load(), 3u);
  EXPECT_EQ(read_blocks(file(0))[0].header.find("\"lost\""), std::string::npos);
}

TEST_F(NodeSealerTest, ABlockThatASealerHadWrittenBeforeItDiedIsNotWrittenAgain) {
  { ASSERT_EQ(seal(*std::make_unique<Sealing>(trace_, result_)), Outcome::kSealed); }
  hand_over();  // as if it had died before it said so
  header().blocks.store(0);
  header().claimed.store(1);
  Sealing next(trace_, result_);
  ASSERT_EQ(seal(next), Outcome::kSealed);
  EXPECT_EQ(header().holding.load(), kSpare);
  EXPECT_EQ(read_blocks(file(0)).size(), 1u);
  EXPECT_EQ(bytes(1), -1) << "nothing was left to write";
  EXPECT_EQ(header().blocks.load(), 1u);
}

TEST_F(NodeSealerTest, ATornBlockIsCutAndWrittenAnewOnceItsSealerIsDead) {
  auto first = std::make_unique<Sealing>(trace_, result_);
  ASSERT_EQ(seal(*first), Outcome::kSealed);
  off_t whole = bytes(0);
  ASSERT_EQ(truncate(file(0).c_str(), whole - 20), 0);
  hand_over();
  {
    Sealing beside(trace_, result_);
    ASSERT_EQ(seal(beside), Outcome::kSealed);
    EXPECT_EQ(bytes(0), whole - 20) << "its sealer lives, and has the file's lock";
    EXPECT_EQ(read_blocks(file(1)).size(), 1u);
  }
  first.reset();
  hand_over();
  header().plan = {};
  memcpy(header().plan.file, file(0).c_str() + trace_.size() + 1, file(0).size() - trace_.size());
  header().plan.epoch = 1;
  Sealing after(trace_, result_);
  ASSERT_EQ(seal(after), Outcome::kSealed);
  EXPECT_EQ(bytes(0), 0) << "shorter than it was left, so nobody continues it";
  EXPECT_EQ(read_blocks(file(1)).size(), 2u);
}

TEST_F(NodeSealerTest, WhatAnotherSealerWritesMeanwhileIsNotCut) {
  { ASSERT_EQ(seal(*std::make_unique<Sealing>(trace_, result_)), Outcome::kSealed); }
  std::string block = read_file(file(0));
  ASSERT_EQ(truncate(file(0).c_str(), bytes(0) - 20), 0);
  hand_over();
  // The sealer that continues the file has cut the torn block and gone on, and lets go of the lock.
  bool locked = false;
  auto write_meanwhile = [&](const SystemCall &call) {
    if (call.number == SYS_flock && !locked) write_file(file(0), block + block);
    locked |= call.number == SYS_flock;
    return false;
  };
  // The torn block was this process's, those of the file now are of another.
  header().pid += 1;
  EXPECT_FALSE(
      run_stopping([&] { apply_plan(header(), open(trace_.c_str(), O_RDONLY | O_DIRECTORY)); }, write_meanwhile));
  EXPECT_TRUE(locked);
  EXPECT_EQ(read_blocks(file(0)).size(), 2u);
}

TEST_F(NodeSealerTest, WhereverASealerIsKilledEachRecordAndLossIsInTheTraceOnce) {
  const int pid = 1 << 22;  // no process
  const std::string own = trace_ + "/" + own_name(pid);
  auto kill_before = [&](int write) {
    unlink(own.c_str());
    for (int n = 0; bytes(n) >= 0; ++n) unlink(file(n).c_str());
    Segment dead(own, journals_ + "/" + kName, 0, pid);
    auto lose = [&] { dead.header()->lost[static_cast<int>(Loss::kNoJournal)].fetch_add(5); };
    std::string tags = "stage=s";
    for (int i = 0; i < 5; ++i) tags += ",k" + std::to_string(i) + "=" + std::string(1000, 'v');
    dead.context(1, tags);
    for (int i = 0; i < 100; ++i) dead.event(Fn::f_fsync, 0, 0, 1);
    lose();
    // A block in the process's own file, which the sealer reads as well.
    EXPECT_EQ(dead.seal(), 0);
    dead.header()->sealed_itself.store(kBefore);
    for (int i = 0; i < 400; ++i) dead.event(Fn::f_fsync, 0, 0, 1);
    lose();
    int writes = 0;
    auto is_there = [&](const SystemCall &call) {
      bool changes = call.number == SYS_write || call.number == SYS_pwrite64 || call.number == SYS_ftruncate ||
                     call.number == SYS_unlinkat;
      return changes && writes++ == write;
    };
    FirstLook first;
    auto seal_dead = [&] { Sealing(trace_, result_).seal_one(directory_fd_, kName, geteuid(), first); };
    bool killed = run_stopping(seal_dead, is_there);
    seal_dead();
    EXPECT_NE(access((journals_ + "/" + kName).c_str(), F_OK), 0);
    uint64_t events = 0, lost = 0, blocks = 0;
    std::vector<std::string> files{own};
    for (int n = 0; bytes(n) >= 0; ++n) files.push_back(file(n));
    for (const auto &path : files) {
      for (const Block &b : read_blocks(path)) {
        uint64_t its_lost = 0;
        events += number(b, "events");
        if (header_number(b.header, "no_journal", its_lost)) lost += its_lost;
        EXPECT_EQ(number(b, "block"), blocks++);
      }
    }
    EXPECT_EQ(events, 500u) << write;
    EXPECT_EQ(lost, 10u) << write;
    EXPECT_GE(blocks, 3u);
    return killed;
  };
  int n = 0;
  while (kill_before(n) && n < 100) ++n;
  EXPECT_GT(n, 8) << "writes at which a sealer was killed";
}

// Journals that ended processes of another pid namespace have left.
void leave_in_another_namespace(const std::string &journals, const std::string &trace, int count) {
  for (int pid = 1; pid <= count; ++pid) {
    char name[200];
    Writer w(name, sizeof name);
    write_process_stem(w, "node-1", pid, 1'700'000'000'000'000'000);
    Segment s(trace + "/" + std::string(w.view()) + ".pfw.gz", journals + "/node_1-" + std::to_string(pid) + "-1.0.tj",
              0, pid);
    s.header()->pid_namespace = 1;
    s.header()->left.store(1);
    s.event(Fn::f_fsync, 0, 0, 1);
  }
}

TEST_F(NodeSealerTest, TheThreadPausesForNoJournalOfAnotherPidNamespace) {
  constexpr int kJournals = 20;
  unlink((journals_ + "/" + kName).c_str());
  leave_in_another_namespace(journals_, trace_, kJournals);
  Looks looks;
  auto seal = [&] {
    NodeSealer sealer(journals_, trace_);
    if (sealer.begin() != 0) _exit(1);
    std::thread stopper([&] {
      for (int i = 0; i < 12'000 && count_journals(journals_) > 0; ++i) usleep(10'000);
      sealer.stop();
    });
    sealer.run();
    stopper.join();
    if (sealer.result().sealed != kJournals) _exit(2);
  };
  EXPECT_FALSE(run_stopping(seal, [&](const SystemCall &call) { return looks.note(call), false; }));
  EXPECT_EQ(looks.pauses(), 0);
  EXPECT_GE(looks.looks(), 2 * kJournals);
  EXPECT_EQ(count_journals(journals_), 0);
}

TEST_F(NodeSealerTest, AtItsEndAllJournalsOfAnotherPidNamespaceTakeOnePause) {
  constexpr int kJournals = 20;
  unlink((journals_ + "/" + kName).c_str());
  leave_in_another_namespace(journals_, trace_, kJournals);
  Looks looks;
  auto seal = [&] {
    NodeSealer sealer(journals_, trace_);
    if (sealer.begin() != 0 || sealer.seal_dead(journals_.c_str()) != 0) _exit(1);
    if (sealer.result().sealed != kJournals) _exit(2);
  };
  EXPECT_FALSE(run_stopping(seal, [&](const SystemCall &call) { return looks.note(call), false; }));
  EXPECT_LE(looks.pauses(), 1);
  EXPECT_GE(looks.looks(), 2 * kJournals);
}

TEST_F(NodeSealerTest, AForgedPlanCutsNothing) {
  auto blocks = [&] { return read_blocks(file(0)).size(); };
  { ASSERT_EQ(seal(*std::make_unique<Sealing>(trace_, result_)), Outcome::kSealed); }
  size_t sealed = 1;
  for (uint64_t offset : {uint64_t{7}, uint64_t{1} << 40}) {
    hand_over();
    header().plan.offset = offset;
    ASSERT_EQ(seal(*std::make_unique<Sealing>(trace_, result_)), Outcome::kSealed);
    EXPECT_EQ(blocks(), ++sealed) << offset;
  }
  write_file(directory_ / "victim.pfw.gz", "precious");
  hand_over();
  header().plan = {0, 1, "../victim.pfw.gz"};
  ASSERT_EQ(seal(*std::make_unique<Sealing>(trace_, result_)), Outcome::kSealed);
  EXPECT_EQ(read_file(directory_ / "victim.pfw.gz"), "precious");
}

TEST_F(NodeSealerTest, WhatTheProcessTookBackIsItsOwn) {
  header().taken_back.store(1);
  Sealing sealing(trace_, result_);
  EXPECT_EQ(seal(sealing), Outcome::kSkipped);
  EXPECT_EQ(header().claimed.load(), 0u);
  EXPECT_EQ(header().holding.load(), kHanded);
  EXPECT_EQ(bytes(0), -1);
}

TEST_F(NodeSealerTest, AnEmptiedSegmentsLedgerHasABlockOfItsOwnAtTheEnd) {
  Sealing sealing(trace_, result_);
  ASSERT_EQ(seal(sealing), Outcome::kSealed);
  header().ledger.known.store(1);
  header().ledger.done[0].store(4711);
  header().pid = 1 << 22;  // no process
  memcpy(header().trace_path, (trace_ + "/" + own_name(1 << 22)).c_str(), trace_.size() + own_name(1 << 22).size() + 2);
  header().path_bytes = static_cast<uint32_t>(strlen(header().trace_path));
  FirstLook first;
  ASSERT_EQ(sealing.seal_one(directory_fd_, kName, geteuid(), first), Outcome::kSealed);
  auto blocks = read_blocks(file(0));
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(number(blocks[0], "block"), 0u);
  EXPECT_EQ(number(blocks[1], "block"), 1u);
  EXPECT_EQ(number(blocks[1], "events"), 0u);
  EXPECT_EQ(number(blocks[1], "done"), 4711u);
}

TEST_F(NodeSealerTest, OneSealerHasTheBoardAndTheNextOneTakesItOver) {
  std::string board = journals_ + "/" + std::string(kBoardName);
  auto beat = [&] {
    SealerBoard b;
    std::string data = read_file(board);
    if (data.size() < sizeof b) return uint64_t{0};
    memcpy(static_cast<void *>(&b), data.data(), sizeof b);
    return b.heartbeat_ns.load();
  };
  NodeSealer first(journals_, trace_), second(journals_, trace_);
  ASSERT_EQ(first.begin(), 0);
  EXPECT_GT(beat(), 0u);
  ASSERT_EQ(second.begin(), 0) << "it waits";
  std::thread a([&] { first.run(); }), b([&] { second.run(); });
  for (int i = 0; i < 12'000 && header().holding.load() != kSpare; ++i) usleep(10'000);
  EXPECT_EQ(header().holding.load(), kSpare) << "a bell that no one rang costs a second";
  first.stop();
  a.join();
  hand_over();
  ASSERT_EQ(first.seal_dead(journals_.c_str()), 0);
  EXPECT_EQ(header().holding.load(), kSpare) << "its process goes on, maybe without a sealer";
  // By the journal, a process of our number that began long ago: a dead one, whose journal is removed in the end.
  mkdir(journals_.c_str(), 0700);
  make_segment();
  for (int i = 0; i < 12'000 && header().holding.load() != kSpare; ++i) usleep(10'000);
  EXPECT_EQ(header().holding.load(), kSpare);
  second.stop();
  b.join();
  ASSERT_EQ(second.seal_dead(journals_.c_str()), 0);
  EXPECT_NE(access(board.c_str(), F_OK), 0);
}

}  // namespace
