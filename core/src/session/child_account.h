// The bytes that a child and its own reaped children read and wrote: what the kernel adds to this process's totals when the
// child is waited for.
//
// Root reads them from the zombie. Linux hides them from all other users, since a process without memory belongs to root
// (task_dump_owner, fs/proc/base.c). There they are what the wait adds to this process's totals: the difference of two
// readings, less what other threads moved meanwhile.
//
// Invariant: the figures are exact, or there are none.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "base/cancellation.h"
#include "base/lock.h"
#include "session/ledger.h"
#include "session/own_descriptors.h"

namespace tailrace {

// What one wait adds to this process's totals. One at a time in a process, and no code of the program may run meanwhile: the
// wait in between must not block.
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
// waits of this process add meanwhile. Of two calls that overlap neither can tell its children's bytes from the other's,
// so the first of them makes the process's account unknown.
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

struct ChildAccount {
  bool known = false;
  uint64_t totals[2] = {0, 0};

  // Calls `take`, which reaps the zombie `child` if it is still there and returns whether it did. If so the child's bytes
  // are counted. Where they are unknown this process's own account, which includes them, becomes unknown too.
  template <class Take>
  void around(pid_t child, Take &&take) {
    g_waits_begun.fetch_add(1);
    known = read_kernel_account(child, totals);
    bool taken;
    if (known) {
      taken = take();
    } else {
      AddedByWait added;
      taken = take();
      known = taken && added.finish(totals);
    }
    if (taken) count_reaped(known ? totals : nullptr);
    g_waits_over.fetch_add(1);
  }
};

}  // namespace tailrace
