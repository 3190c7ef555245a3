// See confine.h. The hooks are prctl here and syscall in hooks_syscall.cc.
#include "confine.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "real.h"

namespace tailrace {

Confinement::Extent Confinement::of_prctl(long option, long value) {
  if (option == PR_SET_SECCOMP) return value == SECCOMP_MODE_STRICT ? Extent::kThread : Extent::kProcess;
  return option == PR_SET_TSC && value == PR_TSC_SIGSEGV ? Extent::kThread : Extent::kNone;
}

Confinement::Extent Confinement::of_seccomp(long operation) {
  if (operation == SECCOMP_SET_MODE_STRICT) return Extent::kThread;
  return operation == SECCOMP_SET_MODE_FILTER ? Extent::kProcess : Extent::kNone;
}

Confinement::Confinement(Extent extent) : extent_(extent) {
  if (extent_ == Extent::kNone) return;
  Call call;
  record_plain(call, Fn::f_prctl, 0);
  if (Thread *t = enter()) seal_thread(t);
}

void Confinement::confined(bool succeeded) {
  if (!succeeded || extent_ == Extent::kNone) return;
  if (extent_ == Extent::kThread) {
    t_confined = 1;
    t_thread = nullptr;
  } else {
    leave_off();
  }
}

}  // namespace tailrace

using namespace tailrace;

// The arguments behind the option are words, as many as there are (prctl(2)).
TAILRACE_HOOK int prctl(int option, ...) noexcept {
  va_list args;
  va_start(args, option);
  unsigned long words[4];
  for (unsigned long &word : words) word = va_arg(args, unsigned long);
  va_end(args);
  Confinement confinement(Confinement::of_prctl(option, static_cast<long>(words[0])));
  int ret = REAL(prctl)(option, words[0], words[1], words[2], words[3]);
  confinement.confined(ret == 0);
  return ret;
}
