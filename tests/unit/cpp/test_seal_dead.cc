// Journals of processes that have ended: which are sealed, to which file, and which are left as they are.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "segments.h"
#include "stopped.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

class SealDead : public TraceFileTest {};

// The pid of a process that has ended.
int dead_pid() {
  int pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

TEST_F(SealDead, JournalsOfDeadProcessesAreSealedAndRemoved) {
  std::string journal = directory_ / "node-7-1.0.tj";
  {
    Segment s(trace_, journal, 0, dead_pid());
    s.context(1, "stage=s");
    for (int i = 0; i < 10; ++i) s.event(Fn::f_fsync, 0, 0, 1);
  }
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_EQ(result.sealed, 1u);
  EXPECT_EQ(result.totals.events, 10u);
  EXPECT_NE(access(journal.c_str(), F_OK), 0);
  EXPECT_EQ(number(read_blocks(trace_)[0], "events"), 10u);
  EXPECT_EQ(seal_dead_journals((directory_ / "absent").c_str(), result), 0);
}

TEST_F(SealDead, InAnotherPidNamespaceAMappingShowsARunningProcess) {
  std::string journal = directory_ / "node-7-1.0.tj";
  SealedJournals result;
  {
    Segment s(trace_, journal, 0, 1);
    s.header()->pid_namespace = 1;
    s.event(Fn::f_fsync, 0, 0, 1);
    ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
    EXPECT_EQ(result.alive, 1u);
    EXPECT_EQ(result.sealed, 0u);
  }
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_EQ(result.sealed, 1u);
  EXPECT_EQ(result.totals.events, 1u);
}

// Journals of ended processes in a pid namespace that isn't ours.
class SealDeadElsewhere : public SealDead {
 protected:
  static constexpr uint64_t kApartNs = 20'000'000;

  std::string journal(int n) const { return journals_ + "/node-" + std::to_string(n) + "-1.0.tj"; }
  void leave(int n, uint32_t holding = kHeld, uint64_t in_namespace = 1) {
    Segment s(directory_ / (std::to_string(n) + ".pfw.gz"), journal(n), 0, own_pid_);
    s.header()->pid_namespace = in_namespace;
    s.header()->holding.store(holding);
    s.event(Fn::f_fsync, 0, 0, 1);
  }
  // `before`: each system call of the sealer, once it is noted.
  void seal(unsigned sealed, unsigned alive, const std::function<void(const SystemCall &)> &before = {}) {
    auto work = [&] {
      SealedJournals result;
      if (seal_dead_journals(journals_.c_str(), result) != 0) _exit(1);
      if (result.sealed != sealed || result.alive != alive || result.failed != 0) _exit(2);
    };
    auto note = [&](const SystemCall &call) {
      looks_.note(call);
      if (before) before(call);
      return false;
    };
    EXPECT_FALSE(run_stopping(work, note));
  }
  static bool is_pause(const SystemCall &call) {
    return call.number == SYS_nanosleep || call.number == SYS_clock_nanosleep;
  }
  void SetUp() override { ASSERT_EQ(mkdir(journals_.c_str(), 0700), 0); }

  std::string journals_ = directory_ / "journals";
  const int own_pid_ = dead_pid();
  Looks looks_;
};

TEST_F(SealDeadElsewhere, AllAreLookedAtBeforeOnePauseAndEachAgainBeforeItIsSealed) {
  for (int n = 0; n < 5; ++n) leave(n);
  seal(5, 0);
  EXPECT_EQ(looks_.order(), "LLLLLLRLRLRLRLR");
  EXPECT_LE(looks_.pauses(), 1);
  for (size_t n = 0; n < 5; ++n) EXPECT_GE(looks_.look_ns(5 + n) - looks_.look_ns(n), kApartNs);
  EXPECT_EQ(count_journals(journals_), 0);
}

TEST_F(SealDeadElsewhere, JournalsOfOurOwnPidNamespaceTakeNoLeaseAndNoPause) {
  for (int n = 0; n < 5; ++n) leave(n, kHeld, pid_namespace());
  seal(5, 0);
  EXPECT_EQ(looks_.order(), "RRRRR");
  EXPECT_EQ(looks_.pauses(), 0);
}

TEST_F(SealDeadElsewhere, AProcessInExecveAtTheFirstLookKeepsItsJournal) {
  for (int n = 0; n < 3; ++n) leave(n);
  {
    Executing process(journal(1));
    bool paused = false;
    seal(2, 1, [&](const SystemCall &call) {
      if (is_pause(call) && !paused) process.go_on();
      paused = paused || is_pause(call);
    });
    ASSERT_TRUE(paused);
    EXPECT_EQ(count_journals(journals_), 1);
    EXPECT_EQ(access(journal(1).c_str(), F_OK), 0);
    seal(0, 1);
  }
  seal(1, 0);
  EXPECT_EQ(read_blocks(directory_ / "1.pfw.gz").size(), 1u);
}

TEST_F(SealDeadElsewhere, AJournalThatIsMappedAtTheFirstLookTakesNoOther) {
  leave(0);
  Segment holder(directory_ / "1.pfw.gz", journal(1), 0, own_pid_);
  holder.header()->pid_namespace = 1;
  seal(1, 1);
  EXPECT_EQ(looks_.looks(), 3);
  EXPECT_EQ(access(journal(1).c_str(), F_OK), 0);
}

TEST_F(SealDeadElsewhere, AJournalThatReplacesAnotherOneHasAPauseOfItsOwn) {
  leave(0);
  int held = open(journal(0).c_str(), O_RDONLY | O_CLOEXEC);  // so that the new one can't be the same inode
  uint64_t replaced_ns = 0;
  seal(1, 0, [&](const SystemCall &call) {
    if (!is_pause(call) || replaced_ns) return;
    unlink(journal(0).c_str());
    leave(0);
    replaced_ns = monotonic_ns();
  });
  close(held);
  EXPECT_EQ(looks_.order(), "LLLR");
  EXPECT_GT(looks_.look_ns(1), replaced_ns);
  EXPECT_GE(looks_.look_ns(2) - looks_.look_ns(1), kApartNs);
}

TEST_F(SealDeadElsewhere, AJournalThatReplacesAnotherOneAfterTheSecondLookIsNotSealed) {
  leave(0);
  int held = open(journal(0).c_str(), O_RDONLY | O_CLOEXEC);
  bool replaced = false;
  seal(0, 0, [&](const SystemCall &call) {
    if (looks_.looks() < 2 || call.number != SYS_openat || replaced) return;
    unlink(journal(0).c_str());
    leave(0);
    replaced = true;
  });
  close(held);
  EXPECT_TRUE(replaced);
  EXPECT_EQ(count_journals(journals_), 1);
}

TEST_F(SealDeadElsewhere, JournalsThatAreReplacedAgainAndAgainEndTheSealing) {
  leave(0);
  std::vector<int> held;
  seal(0, 1, [&](const SystemCall &call) {
    if (!is_pause(call)) return;
    held.push_back(open(journal(0).c_str(), O_RDONLY | O_CLOEXEC));
    unlink(journal(0).c_str());
    leave(0);
  });
  for (int fd : held) close(fd);
  EXPECT_EQ(looks_.looks(), 3);
}

TEST_F(SealDeadElsewhere, AnyNumberOfReservesTakesFewPauses) {
  constexpr int kFiles = 2100;
  for (int n = 0; n < kFiles; ++n) leave(n, kReserve);
  seal(0, 0);
  EXPECT_LE(looks_.pauses(), 3);
  EXPECT_EQ(looks_.looks(), 2 * kFiles);
  EXPECT_EQ(count_journals(journals_), 0);
}

TEST_F(SealDead, AReserveIsRemovedWhenNoProcessHasIt) {
  std::string journal = directory_ / "node-7-1.1.tj";
  SealedJournals result;
  {
    Segment s(trace_, journal, 1, dead_pid());
    s.header()->holding = kReserve;
    ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
    EXPECT_EQ(access(journal.c_str(), F_OK), 0);
    EXPECT_EQ(s.header()->holding, kReserve);
  }
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_NE(access(journal.c_str(), F_OK), 0);
  EXPECT_EQ(result.sealed + result.alive, 0u);
  EXPECT_NE(access(trace_.c_str(), F_OK), 0);
}

// A thread without room for a journal removes what it began, and the next one takes that name.
TEST_F(SealDead, ABegunJournalThatIsReplacedIsNotRemoved) {
  std::string journal = directory_ / "node-7-1.0.tj";
  write_file(directory_ / "other", "");  // an empty directory is removed
  std::atomic<bool> over{false};
  int sealer_rounds = 0;
  std::thread sealer([&] {
    while (!over) {
      SealedJournals result;
      seal_dead_journals(directory_.path().c_str(), result);
      ++sealer_rounds;
    }
  });
  int removed = 0;
  for (int round = 0; round < 20000 && !removed; ++round) {
    int begun = open(journal.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_GE(begun, 0);
    unlink(journal.c_str());
    close(begun);
    int made = open(journal.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_GE(made, 0);
    struct stat status;
    fstat(made, &status);
    bool has_no_name = status.st_nlink == 0;  // its maker makes another one
    for (int look = 0; !has_no_name && look < 20 && !removed; ++look) {
      fstat(made, &status);
      removed += status.st_nlink == 0;
    }
    unlink(journal.c_str());
    close(made);
  }
  over = true;
  sealer.join();
  EXPECT_GT(sealer_rounds, 100);
  EXPECT_EQ(removed, 0);
}

TEST_F(SealDead, AJournalThatWasOnlyBegunIsRemovedWhenNoProcessHasIt) {
  std::string empty = directory_ / "node-7-1.0.tj", allocated = directory_ / "node-7-1.1.tj";
  write_file(empty, "");
  write_file(allocated, std::string(8192, '\0'));
  int maker = open(allocated.c_str(), O_RDWR);
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_NE(access(empty.c_str(), F_OK), 0);
  EXPECT_EQ(access(allocated.c_str(), F_OK), 0);
  close(maker);
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_NE(access(allocated.c_str(), F_OK), 0);
  EXPECT_EQ(result.sealed + result.alive + result.failed, 0u);
}

TEST_F(SealDead, JournalsOfRunningProcessesAreKept) {
  std::string journal = directory_ / "node-7-1.0.tj";
  Segment s(trace_, journal, 0, getpid());
  s.header()->start_realtime_ns = realtime_ns();
  s.event(Fn::f_fsync, 0, 0, 1);
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_EQ(result.alive, 1u);
  EXPECT_EQ(access(journal.c_str(), F_OK), 0);
}

TEST_F(SealDead, RecordsSealedBeforeTheProcessDiedAreNotSealedAgain) {
  std::string journal = directory_ / "node-7-1.0.tj";
  {
    Segment s(trace_, journal, 0, dead_pid());
    s.context(1, "stage=s");
    for (int i = 0; i < 10; ++i) s.event(Fn::f_fsync, 0, 0, 1);
    ASSERT_EQ(s.seal(), 0);
    s.header()->first_slot.store(0);  // the process died before it stored its progress
    s.header()->blocks.store(0);
    s.event(Fn::f_fdatasync, 0, 0, 1);
  }
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(number(blocks[0], "block"), 0u);
  EXPECT_EQ(number(blocks[1], "block"), 1u);
  EXPECT_EQ(number(blocks[1], "events"), 1u);
  EXPECT_EQ(count(blocks[1].json, "\"stage\":\"s\""), 1) << "state is read from slots that are sealed already";
}

TEST_F(SealDead, ATornTailIsCutBeforeBlocksAreAppended) {
  std::string journal = directory_ / "node-7-1.0.tj";
  {
    Segment s(trace_, journal, 0, dead_pid());
    s.event(Fn::f_fsync, 0, 0, 1);
    ASSERT_EQ(s.seal(), 0);
    std::string whole = read_file(trace_);
    write_file(trace_, whole + whole.substr(0, whole.size() / 2));
    s.empty();
    s.event(Fn::f_fdatasync, 0, 0, 1);
  }
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(count(blocks[1].json, "fdatasync"), 1);
}

TEST_F(SealDead, FilesThatAreNoJournalsAreUnchanged) {
  for (const char *name : {"a.tj", "b.tj", "c.txt"}) write_file(directory_ / name, std::string(8192, name[0]));
  write_file(directory_ / "empty", "");
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_EQ(result.sealed + result.alive + result.failed, 0u);
  EXPECT_EQ(access((directory_ / "a.tj").c_str(), F_OK), 0);
}

TEST_F(SealDead, AFailedSealKeepsTheJournalForTheNextTry) {
  std::string journal = directory_ / "node-7-1.0.tj", place = directory_ / "place";
  {
    Segment s(place + "/t.pfw.gz", journal, 0, dead_pid());
    for (int i = 0; i < 10; ++i) s.event(Fn::f_fsync, 0, 0, 1);
  }
  // A file where the directory should be: it can't be written to now.
  ASSERT_EQ(close(creat(place.c_str(), 0600)), 0);
  SealedJournals first, second;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), first), 0);
  EXPECT_EQ(first.failed, 1u);
  EXPECT_EQ(first.failed_events, 10u);
  ASSERT_EQ(unlink(place.c_str()), 0);
  ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), second), 0);
  EXPECT_EQ(second.sealed, 1u);
  EXPECT_EQ(second.totals.events, 10u);
  EXPECT_EQ(second.totals.lost[static_cast<int>(Loss::kNotWritten)], 0u) << "nothing was lost in the end";
}

TEST_F(SealDead, AJournalWhoseRunDirectoryIsGoneIsDroppedAndCounted) {
  std::string journal = directory_ / "node-7-1.0.tj";
  {
    Segment s(directory_ / "gone/t.pfw.gz", journal, 0, dead_pid());
    for (int i = 0; i < 10; ++i) s.event(Fn::f_fsync, 0, 0, 1);
  }
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_EQ(result.failed, 0u);
  EXPECT_EQ(result.unrecorded_lost[static_cast<int>(Loss::kNotWritten)], 10u);
  EXPECT_NE(access(journal.c_str(), F_OK), 0) << "memory is given back";
}

TEST_F(SealDead, AJournalThatNamesAFileOutsideTheRunIsUnchanged) {
  std::string journal = directory_ / "node-7-1.0.tj", victim = directory_ / "victim.pfw.gz";
  { Segment(victim, journal, 0, dead_pid()).event(Fn::f_fsync, 0, 0, 1); }
  FILE *f = fopen(victim.c_str(), "w");
  ASSERT_TRUE(f && fputs("not a trace", f) >= 0 && fclose(f) == 0);
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result, directory_ / "run/trace"), 0);
  EXPECT_EQ(result.sealed + result.failed, 0u);
  struct stat s;
  ASSERT_EQ(stat(victim.c_str(), &s), 0);
  EXPECT_EQ(s.st_size, 11) << "the file is as it was";
}

// The name that a Segment's process gives to its trace file.
std::string own_name(int pid) {
  char name[200];
  Writer w(name, sizeof name);
  write_process_stem(w, "node-1", pid, 1'700'000'000'000'000'000);
  return std::string(w.view()) + ".pfw.gz";
}

TEST_F(SealDead, AJournalGoesToItsOwnProcesssFileOnly) {
  std::string journal = directory_ / "node-7-1.0.tj", run = directory_ / "trace";
  int pid = dead_pid(), other = dead_pid();
  ASSERT_EQ(mkdir(run.c_str(), 0700), 0);
  { Segment(run + "/" + own_name(other), journal, 0, pid).event(Fn::f_fsync, 0, 0, 1); }
  SealedJournals forged, right;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), forged, run), 0);
  EXPECT_EQ(forged.sealed + forged.failed, 0u);
  EXPECT_NE(access((run + "/" + own_name(other)).c_str(), F_OK), 0);
  { Segment(run + "/" + own_name(pid), journal, 0, pid).event(Fn::f_fsync, 0, 0, 1); }
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), right, run), 0);
  EXPECT_EQ(right.sealed, 1u);
}

TEST_F(SealDead, ANameWithControlCharactersIsNoHost) {
  std::string journal = directory_ / "node-7-1.0.tj";
  Segment(trace_, journal, 0, dead_pid()).header()->host[2] = '\n';
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  EXPECT_EQ(result.sealed + result.failed, 0u);
}

TEST_F(SealDead, WhatAnotherUserSaysGoesToAFileOfItsOwn) {
  constexpr unsigned kUser = 65534;
  if (geteuid() != 0) GTEST_SKIP() << "only root may give files to another user";
  int pid = dead_pid();
  std::string run = directory_ / "trace", mine = directory_ / "tailrace-0", his = directory_ / "tailrace-65534";
  std::string trace = run + "/" + own_name(pid), journal = his + "/key/node-7-1.0.tj";
  for (const auto &path : {run, mine, mine + "/key", his, his + "/key"}) ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  write_file(mine + "/key/65534" + std::string(kUserSuffix), "");
  write_file(trace, "of a process of root's");
  { Segment(trace, journal, 0, pid).event(Fn::f_fsync, 0, 0, 1); }
  for (const auto &path : {his, his + "/key", journal}) ASSERT_EQ(chown(path.c_str(), kUser, kUser), 0);
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals((mine + "/key").c_str(), result, run), 0);
  EXPECT_EQ(result.sealed, 1u);
  EXPECT_EQ(read_file(trace), "of a process of root's");
  EXPECT_EQ(read_blocks(run + "/u65534." + own_name(pid)).size(), 1u);
}

TEST_F(SealDead, AFileThatIsNoTraceIsNotChanged) {
  std::string journal = directory_ / "node-7-1.0.tj", victim = directory_ / "t.pfw.gz";
  { Segment(victim, journal, 0, dead_pid()).event(Fn::f_fsync, 0, 0, 1); }
  FILE *f = fopen(victim.c_str(), "w");
  ASSERT_TRUE(f && fputs("one user's notes, longer than a gzip header", f) >= 0 && fclose(f) == 0);
  SealedJournals result;
  ASSERT_EQ(seal_dead_journals(directory_.path().c_str(), result), 0);
  struct stat s;
  ASSERT_EQ(stat(victim.c_str(), &s), 0);
  EXPECT_EQ(s.st_size, 43);
}

}  // namespace
