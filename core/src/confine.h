// A program that confines itself (seccomp(2), PR_SET_TSC): from then on a system call or clock read that it did not
// plan for kills it, and ours are such. So tracing ends there: what was recorded is sealed first, and nothing of us
// calls the kernel after.
#pragma once

#include "record.h"

namespace tailrace {

class Confinement {
 public:
  // kThread: strict mode and the forbidden time stamp counter are the thread's own; kProcess: a filter comes to all
  // threads, or to all that the thread starts, with nobody to ask what it allows.
  enum class Extent { kNone, kThread, kProcess };
  static Extent of_prctl(long option, long value);
  static Extent of_seccomp(long operation);

  // Before the call.
  explicit Confinement(Extent extent);
  // After it.
  void confined(bool succeeded);

 private:
  Extent extent_;
};

}  // namespace tailrace
