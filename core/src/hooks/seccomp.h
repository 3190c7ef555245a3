// A program that confines itself (seccomp(2), PR_SET_TSC): from then on a system call or clock read that it did not
// plan for may kill it, and ours are such. A filter is asked what it does to them (format/seccomp_filter.h); where one
// of them would be deadly tracing ends before it: what was recorded is sealed, and nothing of us calls the kernel
// after. A filter that the program sets by a system call of its own making is noticed by the next program only
// (session/session.cc, may_start).
#pragma once

#include "session/record.h"

namespace tailrace {

class Confinement {
 public:
  static Confinement of_prctl(long option, long value, const void *program);
  static Confinement of_seccomp(long operation, const void *program);

  // After the call.
  void confined(bool succeeded);

 private:
  // kThread: strict mode and the forbidden time stamp counter are the thread's own; kProcess: a filter comes to all
  // threads, or to all that the thread starts; kHarmless: one that leaves our calls alone.
  enum class Extent { kNone, kThread, kProcess, kHarmless };
  // Before the call.
  explicit Confinement(Extent extent);
  static Confinement of_filter(const void *program);

  Extent extent_;
};

}  // namespace tailrace
