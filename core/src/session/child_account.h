// The bytes that a child and its own reaped children read and wrote: what the kernel adds to this process's totals when
// the child is waited for.
//
// Root reads them from the zombie. Linux hides them from all other users, since a process without memory belongs to
// root (task_dump_owner, fs/proc/base.c). There they are what the wait adds to this process's totals: the difference of
// two readings, less what other threads moved meanwhile.
//
// Invariant: the figures are exact, or there are none.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "base/cancellation.h"
#include "base/lock.h"
#include "session/ledger.h"
#include "session/memory_sharers.h"
#include "session/own_descriptors.h"
#include "session/processor_account.h"

namespace tailrace {

// What one wait adds to this process's totals. One at a time in a process, and no code of the program may run
// meanwhile: the wait in between must not block.
class AddedByWait {
 public:
  AddedByWait();
  bool finish(uint64_t (&totals)[2]);

 private:
  Locked alone_;
  LooksHere here_;
  CancellationOff uncancelled_;
  uint32_t threads_made_;
  bool known_;
};

// The calls that AddedInCall is for.
extern std::atomic<uint32_t> g_calls_begun;

// What a call adds in which libc itself starts children and waits for them, however long it takes. Excludes what other
// waits of this process add meanwhile. Of two calls that overlap neither can tell its children's bytes from the
// other's, so the first of them makes the process's account unknown.
class AddedInCall {
 public:
  AddedInCall() : call_(g_calls_begun.fetch_add(1) + 1), threads_made_(g_threads_made.load()), known_(read(before_)) {}
  // After the call: adds it to the ledger.
  void count();

 private:
  struct State {
    uint64_t rest[2];  // what no living thread moved, less what other waits added
    int thread_count, threads[128];
  };
  bool read(State &out);

  uint32_t call_;
  uint32_t threads_made_;
  State before_;
  bool known_;
};

// The waits that all threads have begun, and those that are over.
extern std::atomic<uint32_t> g_waits_begun, g_waits_over;

// Of a wait by a task that only shares this process's memory: what it adds is the task's, which nobody else moves.
class AddedBeside {
 public:
  AddedBeside() : known_(read_kernel_account(0, before_, &bytes_read_)) {}
  // After the wait has reaped `child`: adds its bytes to the ledger.
  void count(pid_t child);

  // The child's, null: unknown; valid after count().
  const uint64_t *totals() const { return known_ ? totals_ : nullptr; }
  const StartedChild &started() const { return started_; }

 private:
  uint64_t before_[2], totals_[2] = {0, 0};
  StartedChild started_;
  int64_t bytes_read_ = 0;
  bool known_;
};

struct ChildAccount {
  bool known = false;
  uint64_t totals[2] = {0, 0};
  ProcessTime time;
  StartedChild started;  // what is known of the child

  // Calls `take`, which reaps the zombie `child` if it is still there and returns whether it did. If so the child's
  // bytes are counted. Where they are unknown this process's own account, which includes them, becomes unknown too.
  // Those of a child that shared the memory are this process's own.
  template <class Take>
  void around(pid_t child, Take &&take) {
    g_waits_begun.fetch_add(1);
    const bool is_ours = is_child_ours(child);
    time = child_time(child);
    known = is_ours || read_kernel_account(child, totals);
    bool taken;
    if (known) {
      taken = take();
    } else {
      AddedByWait added;
      taken = take();
      known = taken && added.finish(totals);
    }
    if (taken) {
      started = take_child(child);
      if (is_ours) count_own(started.own_bytes, 0);
      if (!is_ours) count_reaped(known ? totals : nullptr);
    }
    g_waits_over.fetch_add(1);
  }
};

}  // namespace tailrace
