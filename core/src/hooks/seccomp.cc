// See hooks/seccomp.h. The hooks are prctl here and syscall in hooks/syscall.cc.
#include "hooks/seccomp.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "base/own_memory.h"
#include "format/program.h"
#include "format/seccomp_filter.h"
#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/reserve.h"

namespace tailrace {
namespace {

constexpr FilterVerdict kDeadly{true, true};

// `program` is seccomp(2)'s argument, and may be a bad pointer.
FilterVerdict examine(const void *program) {
  struct sock_fprog given;
  struct iovec where = {const_cast<void *>(program), sizeof given};
  if (!copy_if_readable(&given, &where, 1, sizeof given)) return kDeadly;
  size_t bytes = given.len * sizeof(struct sock_filter);
  auto *code = bytes ? static_cast<struct sock_filter *>(own_memory::pages(bytes)) : nullptr;
  if (!code) return kDeadly;
  where = {given.filter, bytes};
  FilterVerdict verdict = copy_if_readable(code, &where, 1, bytes) ? examine_filter(code, given.len) : kDeadly;
  own_memory::release(code, bytes);
  return verdict;
}

}  // namespace

Confinement Confinement::of_filter(const void *program) {
  // libseccomp asks in this way what the kernel knows. The kernel reads no filter and refuses.
  if (!program) return Confinement(Extent::kNone);
  // A vfork child may not use its parent's memory for the check, so what it starts is untraced.
  if (is_vfork_child() || !enter()) return Confinement(Extent::kProcess);
  FilterVerdict verdict = examine(program);
  if (verdict.deadly) return Confinement(Extent::kProcess);
  if (verdict.refuses) make_reserve();
  return Confinement(Extent::kHarmless);
}

Confinement Confinement::of_prctl(long option, long value, const void *program) {
  if (option == PR_SET_SECCOMP && value == SECCOMP_MODE_FILTER) return of_filter(program);
  bool thread =
      (option == PR_SET_SECCOMP && value == SECCOMP_MODE_STRICT) || (option == PR_SET_TSC && value == PR_TSC_SIGSEGV);
  return Confinement(thread ? Extent::kThread : Extent::kNone);
}

Confinement Confinement::of_seccomp(long operation, const void *program) {
  if (operation == SECCOMP_SET_MODE_FILTER) return of_filter(program);
  return Confinement(operation == SECCOMP_SET_MODE_STRICT ? Extent::kThread : Extent::kNone);
}

Confinement::Confinement(Extent extent) : extent_(extent) {
  if (extent_ == Extent::kNone || extent_ == Extent::kHarmless) return;
  Call call;
  Event e;
  e.fn = Fn::f_prctl;
  if (extent_ == Extent::kProcess) e.count = static_cast<uint64_t>(Obstacle::kConfined);
  record_file(call, e, nullptr);
  if (Thread *t = enter()) seal_thread(t);
}

void Confinement::take_effect(bool succeeded) {
  if (!succeeded || extent_ == Extent::kNone) return;
  if (extent_ == Extent::kHarmless) {
    g_session.filters.fetch_add(1, std::memory_order_relaxed);
  } else if (VforkState &vforked = vfork_state(); vforked.depth) {
    if (!vforked.confined) vforked.confined = vforked.depth;
  } else if (extent_ == Extent::kThread) {
    t_confined = 1;
    t_thread = nullptr;
  } else {
    stop_tracing();
  }
}

}  // namespace tailrace

using namespace tailrace;

// The number of arguments depends on the option, and all are words (prctl(2)).
TAILRACE_HOOK int prctl(int option, ...) noexcept {
  va_list args;
  va_start(args, option);
  unsigned long words[4];
  for (unsigned long &word : words) word = va_arg(args, unsigned long);
  va_end(args);
  auto confinement =
      Confinement::of_prctl(option, static_cast<long>(words[0]), reinterpret_cast<const void *>(words[1]));
  int ret = REAL(prctl)(option, words[0], words[1], words[2], words[3]);
  confinement.take_effect(ret == 0);
  return ret;
}
