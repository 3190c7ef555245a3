// A program that confines itself (seccomp(2), PR_SET_TSC): from then on unexpected system calls or clock reads may kill
// it, and the core makes such. A filter's effect on them is computed (format/seccomp_filter.h). If one of them would be
// deadly tracing ends before the filter is set: all records are sealed, and the core makes no system call afterwards. A
// filter that the program sets by a raw system call is noticed only by the next program
// (session/session.cc, may_start).
#pragma once

#include "session/record.h"

namespace tailrace {

class Confinement {
 public:
  static Confinement of_prctl(long option, long value, const void *program);
  static Confinement of_seccomp(long operation, const void *program);

  // After the call.
  void take_effect(bool succeeded);

 private:
  // kThread: strict mode and a forbidden time stamp counter concern one thread; kProcess: a filter concerns all
  // threads, or all processes that the thread starts; kHarmless: a filter that allows the core's system calls.
  enum class Extent { kNone, kThread, kProcess, kHarmless };
  // Before the call.
  explicit Confinement(Extent extent);
  static Confinement of_filter(const void *program);

  Extent extent_;
};

}  // namespace tailrace
