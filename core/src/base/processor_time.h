// The kernel's account of time: how long threads were on a processor, and how long they were ready and waited for one.
//
// - On a processor: by the clocks of processor time. /proc/.../schedstat has it, too, but of a thread that runs only up
//   to the last tick or switch, which is milliseconds ago.
// - Ready: by schedstat alone. It is exact for a thread that runs, since it was counted when the thread got its
//   processor.
// - schedstat of a process is that of its first thread. Of threads that have ended the kernel keeps the time on a
//   processor, in the process's clock, and forgets how long they waited.
//
// Unlike /proc/PID/io, both can be read of another user's process, and of one that is dead and not yet waited for.
#pragma once

#include <stdint.h>

namespace tailrace {

constexpr int64_t kUnknownTime = -1;

struct ProcessorTime {
  int64_t run_ns = kUnknownTime;
  int64_t ready_ns = kUnknownTime;
};

// Of several threads: `ready_ns` is the sum of those that are known, and `ready_of_ns` what the same were on a
// processor. Where that is `run_ns`, which is of all, the sum is complete.
struct ProcessTime {
  int64_t run_ns = kUnknownTime;
  int64_t ready_ns = kUnknownTime;
  int64_t ready_of_ns = kUnknownTime;

  void add(const ProcessorTime &thread) {
    if (thread.run_ns < 0 || thread.ready_ns < 0) return;
    ready_ns = (ready_ns < 0 ? 0 : ready_ns) + thread.ready_ns;
    ready_of_ns = (ready_of_ns < 0 ? 0 : ready_of_ns) + thread.run_ns;
  }
};

// `bytes_read` grows by what was read of /proc.
ProcessorTime own_thread_time(int64_t &bytes_read);
// Of a thread of this process.
ProcessorTime thread_time(int tid, int64_t &bytes_read);
// Of a process that is dead and not yet waited for. /proc must be of the caller's pid namespace.
ProcessTime ended_process_time(int pid, int64_t &bytes_read);
// Of a thread of any process that stands still.
ProcessorTime stopped_thread_time(int tid, int64_t &bytes_read);
// On a processor: all threads of a process, ended ones too; kUnknownTime where there is none.
int64_t process_run_ns(int pid);

// Whether this kernel has schedstat, and counts in it.
bool has_schedstat(int64_t &bytes_read);

}  // namespace tailrace
