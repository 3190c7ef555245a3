// What a child read and wrote, with those that it waited for: what the kernel adds to this process's own account when
// the child is waited for.
//
// Root reads it from the zombie. Linux hides that from everybody else: a process without memory has no owner but root
// (task_dump_owner, fs/proc/base.c). Then it is what the wait adds to this process's account, the difference of two
// readings, less what other threads moved meanwhile. What holds: the figures are exact, or there are none.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "base/cancellation.h"
#include "base/lock.h"
#include "session/ledger.h"

namespace tailrace {

// Counts up when this process makes a thread.
extern std::atomic<uint32_t> g_threads_made;

// One at a time in a process, and nothing of the program may run meanwhile: the wait between must not block.
class AddedByWait {
 public:
  AddedByWait();
  bool finish(uint64_t (&totals)[2]);

 private:
  Locked alone_;
  CancellationOff uncancelled_;
  uint32_t threads_made_;
  bool known_;
};

// What a call of libc's adds that starts and waits for children within itself, however long it takes. Not what this
// process's other waits took meanwhile.
class AddedInCall {
 public:
  AddedInCall() : threads_made_(g_threads_made.load()), known_(read(before_)) {}
  // After the call: into the ledger.
  void count();

 private:
  struct State {
    uint64_t rest[2];  // what no thread that lives moved, less what was waited for
    int thread_count, threads[128];
  };
  bool read(State &out);

  uint32_t threads_made_;
  State before_;
  bool known_;
};

// Waits that were begun and that are over, by all threads.
extern std::atomic<uint32_t> g_waits_begun, g_waits_over;

struct ChildAccount {
  bool known = false;
  uint64_t totals[2] = {0, 0};

  // Calls `take`, which takes `child`, a zombie, if it is still there, and says whether it did. If so the child's bytes
  // are counted; where they are not known, this process's own account, of which they are a part, isn't either any more.
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
