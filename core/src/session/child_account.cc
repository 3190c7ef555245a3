// See session/child_account.h.
#include "session/child_account.h"

#include <string.h>

#include "base/sys.h"
#include "session/proc_self.h"

namespace tailrace {
namespace {

constexpr int kTries = 16;
constexpr int kMaxThreads = 128;  // as many as AddedInCall has room for

struct ThreadAccount {
  int tid;
  uint64_t totals[2];
};

// The other threads of this process.
struct Others {
  int count;
  ThreadAccount threads[kMaxThreads];

  const ThreadAccount *find(int tid) const {
    for (int i = 0; i < count; ++i) {
      if (threads[i].tid == tid) return &threads[i];
    }
    return nullptr;
  }
  bool operator==(const Others &o) const {
    return count == o.count && memcmp(threads, o.threads, static_cast<size_t>(count) * sizeof threads[0]) == 0;
  }
};

// The process's totals less those of living threads: ended threads and reaped children. Not on the stack, which may be
// small; g_wiped.reaping guards it.
struct Reading {
  uint64_t rest[2];
  Others others;
};
Reading g_before, g_after;
Others g_again;

bool has_other_threads() {
  struct statx about;
  constexpr unsigned kEmptyDirectory = 2;
  return sys::statx(AT_FDCWD, "/proc/self/task", 0, STATX_NLINK, &about) < 0 || about.stx_nlink != kEmptyDirectory + 1;
}

// False when there are too many, or they can't be read.
bool read_others(Others &out) {
  out.count = 0;
  return each_other_thread([&](int tid) {
    if (out.count == kMaxThreads) return false;
    ThreadAccount &next = out.threads[out.count];
    if (!read_thread_account(tid, next.totals)) return true;
    next.tid = tid;
    ++out.count;
    return true;
  });
}

// The kernel adds up the process and its threads at different moments: a reading is valid when the threads moved
// nothing meanwhile.
bool take_reading(Reading &out) {
  bool alone = !has_other_threads();
  out.others.count = 0;
  for (int i = 0; i < kTries; ++i) {
    uint64_t all[2], mine[2];
    if (!alone && !read_others(out.others)) return false;
    int64_t bytes_read = 0;
    if (!read_kernel_account(0, all, &bytes_read) || !read_kernel_account(kThisThread, mine)) return false;
    if (!alone && !read_others(g_again)) return false;
    if (!alone && !(out.others == g_again)) continue;
    // The second reading includes the bytes of the first.
    mine[kRead] -= static_cast<uint64_t>(bytes_read);
    for (int way = 0; way < 2; ++way) {
      out.rest[way] = all[way] - mine[way];
      for (int t = 0; t < out.others.count; ++t) out.rest[way] -= out.others.threads[t].totals[way];
    }
    return true;
  }
  return false;
}

}  // namespace

std::atomic<uint32_t> g_calls_begun, g_waits_begun, g_waits_over;

AddedByWait::AddedByWait()
    : alone_(g_wiped.reaping), threads_made_(g_threads_made.load()), known_(take_reading(g_before)) {}

bool AddedByWait::finish(uint64_t (&totals)[2]) {
  if (!known_ || !take_reading(g_after)) return false;
  for (int way = 0; way < 2; ++way) totals[way] = g_after.rest[way] - g_before.rest[way];
  // The bytes of a thread that has ended meanwhile are now in `rest`; a thread that began and ended is in neither
  // reading.
  for (int t = 0; t < g_before.others.count; ++t) {
    if (!g_after.others.find(g_before.others.threads[t].tid)) return false;
  }
  return g_threads_made.load() == threads_made_;
}

void AddedBeside::count(pid_t child) {
  const bool is_ours = is_child_ours(child);
  started_ = take_child(child);
  // The bytes of a child that shared the memory are then this task's, and at its own end the process's.
  if (is_ours) {
    known_ = true;
    return count_own_beside(started_.own_bytes);
  }
  known_ = known_ && read_kernel_account(0, totals_);
  if (!known_) return count_reaped(nullptr);
  for (int way = 0; way < 2; ++way) totals_[way] -= before_[way];
  totals_[kRead] -= static_cast<uint64_t>(bytes_read_);
  count_reaped(totals_);
}

bool AddedInCall::read(State &out) {
  if (!enter() || !g_session.ledger->is_known()) return false;
  for (int i = 0; i < kTries; ++i) {
    Locked alone(g_wiped.reaping);
    LooksHere here;
    // A wait counts what it added only when it is over.
    uint32_t over = g_waits_over.load();
    if (!take_reading(g_before)) return false;
    for (int way = 0; way < 2; ++way) out.rest[way] = g_before.rest[way] - g_session.ledger->reaped[way].load();
    if (g_waits_begun.load() != over) continue;
    out.thread_count = g_before.others.count;
    for (int t = 0; t < out.thread_count; ++t) out.threads[t] = g_before.others.threads[t].tid;
    return true;
  }
  return false;
}

void AddedInCall::count() {
  State after = before_;
  bool known = known_ && read(after) && g_threads_made.load() == threads_made_ && g_calls_begun.load() == call_;
  // As for AddedByWait: all threads of the first reading still live.
  for (int t = 0; known && t < before_.thread_count; ++t) {
    int u = 0;
    while (u < after.thread_count && after.threads[u] != before_.threads[t]) ++u;
    known = u < after.thread_count;
  }
  uint64_t totals[2] = {after.rest[kRead] - before_.rest[kRead], after.rest[kWritten] - before_.rest[kWritten]};
  count_reaped(known ? totals : nullptr);
}

}  // namespace tailrace
