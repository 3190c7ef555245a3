// Hooks: waits for children, which also read the kernel's account of them.
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/child_account.h"
#include "session/record.h"

using namespace tailrace;

namespace {

// A child's account is read between a check that leaves the child waitable (WNOWAIT) and a call that reaps just this
// child. If another thread reaped it in between, the check is repeated. So the account is exact, however the child
// ended. The check blocks, is interrupted and is cancelled as the program's call would be.
struct Peeked {
  pid_t pid = 0;  // 0: the program's call is made unchanged
  bool ended = false;
};

enum class Found { kCall, kNothing, kInterrupted };

constexpr int kWaitFlags = WNOHANG | WUNTRACED | WEXITED | WCONTINUED | WNOWAIT | __WALL | __WCLONE | __WNOTHREAD;

bool has_ended(const siginfo_t &info) {
  return info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
}

// kNothing: the call would find no child (WNOHANG). kInterrupted: it would fail with EINTR, and errno is EINTR.
Found peek(idtype_t type, id_t id, int options, Peeked &out) {
  siginfo_t found;
  found.si_pid = 0;
  if (REAL(waitid)(type, id, &found, options | WEXITED | WNOWAIT) < 0) {
    return errno == EINTR ? Found::kInterrupted : Found::kCall;
  }
  if (found.si_pid == 0) return Found::kNothing;
  out.pid = found.si_pid;
  out.ended = has_ended(found);
  return Found::kCall;
}

// `take` reaps the child and returns whether it did.
template <class Take>
void reap(const Call &call, Fn fn, const Peeked &peeked, const int &status, Take &&take) {
  if (!peeked.ended) {
    take();
    return;
  }
  bool taken = false;
  ChildAccount account;
  account.around(peeked.pid, [&] { return taken = take(); });
  if (!taken) return;
  record_wait(call, fn, peeked.pid, status, {account.known ? account.totals : nullptr, account.started, account.time});
}

bool has_ended(int status) { return WIFEXITED(status) || WIFSIGNALED(status); }

void record_beside(const Call &call, Fn fn, pid_t child, int status, AddedBeside &added) {
  const int saved = errno;
  added.count(child);
  record_wait(call, fn, child, status, {added.totals(), added.started(), {}});
  errno = saved;
}

template <class Real>
pid_t wait_accounted(Fn fn, pid_t pid, int *status, int options, Real &&real) {
  Call call;
  int own_status = 0;
  int *out = status ? status : &own_status;
  if (is_traced_other_task()) {
    AddedBeside added;
    const pid_t got = real(pid, out, options);
    if (got > 0 && has_ended(*out)) record_beside(call, fn, got, *out, added);
    return got;
  }
  if (!call || (options & ~(kWaitFlags & ~(WEXITED | WNOWAIT))) || pid < -INT_MAX) return real(pid, status, options);
  idtype_t type = pid == -1 ? P_ALL : pid > 0 ? P_PID : P_PGID;
  for (;;) {
    Peeked peeked;
    switch (peek(type, static_cast<id_t>(pid < 0 ? -pid : pid), options, peeked)) {
      case Found::kInterrupted: return -1;
      case Found::kNothing: return 0;
      case Found::kCall: break;
    }
    if (!peeked.pid) return real(pid, out, options);
    pid_t got = -1;
    reap(call, fn, peeked, *out, [&] {
      got = real(peeked.pid, out, options | WNOHANG);
      return got > 0 && has_ended(*out);
    });
    if (got == 0 || (got < 0 && errno == ECHILD)) continue;
    return got;
  }
}

// As the kernel does where no child has changed. False: the pointer is bad. What the kernel writes begins with 8 bytes
// and ends with the status.
bool write_nothing(siginfo_t *info) {
  if (!is_on_callers_stack(info, sizeof *info)) {
    constexpr long kBytes = 8;
    char *const at = reinterpret_cast<char *>(info), *const last =
                                                         reinterpret_cast<char *>(&info->si_status) + 4 - kBytes;
    for (char *part : {at, last}) {
      if (sys::call(SYS_rt_sigprocmask, SIG_SETMASK, 0, sys::pointer(part), kBytes) < 0) return false;
    }
  }
  info->si_signo = info->si_code = info->si_errno = info->si_pid = info->si_status = 0;
  info->si_uid = 0;
  return true;
}

int status_of(const siginfo_t &info) {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xFF) << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

}  // namespace

TAILRACE_HOOK pid_t wait(int *status) {
  return wait_accounted(Fn::f_wait, -1, status, 0, [](pid_t child, int *out, int how) {
    return child == -1 ? REAL(wait)(out) : REAL(waitpid)(child, out, how);
  });
}

TAILRACE_HOOK pid_t waitpid(pid_t pid, int *status, int options) {
  return wait_accounted(Fn::f_waitpid, pid, status, options,
                        [](pid_t child, int *out, int how) { return REAL(waitpid)(child, out, how); });
}

TAILRACE_HOOK pid_t wait3(int *status, int options, struct rusage *usage) noexcept {
  return wait_accounted(Fn::f_wait3, -1, status, options, [usage](pid_t child, int *out, int how) {
    return child == -1 ? REAL(wait3)(out, how, usage) : REAL(wait4)(child, out, how, usage);
  });
}

TAILRACE_HOOK pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage) noexcept {
  return wait_accounted(Fn::f_wait4, pid, status, options,
                        [usage](pid_t child, int *out, int how) { return REAL(wait4)(child, out, how, usage); });
}

TAILRACE_HOOK int waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
  Call call;
  if (is_traced_other_task() && !(options & WNOWAIT)) {
    siginfo_t own;
    siginfo_t *out = info ? info : &own;
    AddedBeside added;
    const int ret = REAL(waitid)(type, id, out, options);
    if (ret == 0 && out->si_pid != 0 && has_ended(*out)) {
      record_beside(call, Fn::f_waitid, out->si_pid, status_of(*out), added);
    }
    return ret;
  }
  if (!call || !(options & WEXITED) || (options & WNOWAIT) || (options & ~kWaitFlags)) {
    return REAL(waitid)(type, id, info, options);
  }
  siginfo_t own;
  siginfo_t *out = info ? info : &own;
  for (;;) {
    Peeked peeked;
    switch (peek(type, id, options, peeked)) {
      case Found::kInterrupted: return -1;
      case Found::kNothing:
        if (write_nothing(out)) return 0;
        errno = EFAULT;
        return -1;
      case Found::kCall: break;
    }
    if (!peeked.pid) return REAL(waitid)(type, id, out, options);
    int ret = -1, status = 0;
    reap(call, Fn::f_waitid, peeked, status, [&] {
      ret = REAL(waitid)(P_PID, static_cast<id_t>(peeked.pid), out, options | WNOHANG);
      status = status_of(*out);
      return ret == 0 && out->si_pid != 0 && has_ended(*out);
    });
    bool gone = ret < 0 ? errno == ECHILD : out->si_pid == 0;
    if (gone) continue;
    return ret;
  }
}
