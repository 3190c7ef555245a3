// The kernel's account of the time of this process's threads and children: on a processor, and ready
// (base/processor_time.h).
//
//   a thread's end         its account, in a `thread` event if it has recorded anything; added up for the process
//   the process's end      if it had other threads: the accounts of those that still live, in a `thread` event each;
//                          the sum is in the `exit` event
//   a wait                 that of the child, which is read before it is reaped
//   a task in a worker     the thread's at both ends (api.cc)
//
// Invariants:
// - A thread is in the sum once: either it has ended, or it lives at the end.
// - The work at the end is bounded: of a process with more threads than kMostThreads, the rest is in no sum.
// - A process of one thread reads nothing at its end, since who waits for it knows all. Programs are killed most often
//   when they are about to end, and what the kernel has counted of a reading is not in the ledger yet at that moment.
// - Nothing here changes errno.
#pragma once

#include "base/processor_time.h"
#include "session/session.h"

namespace tailrace {

// The calling thread's until now.
ProcessorTime time_of_caller();
// The calling thread is about to end.
void account_for_ended_thread();
// In a forked child, whose threads in the kernel begin at 0.
void forget_ended_threads();
// At the process's end; unknown where it never had other threads. With `t`, the calling thread's Thread, it records
// those that live. Signals blocked.
ProcessTime account_for_process(Thread *t);
// Of a child that has ended and was not waited for.
ProcessTime child_time(int pid);

}  // namespace tailrace
