// See followed_process.h: calls that wait, as hooks/waits.cc records them. What a call was for is read after it, as the
// program's memory then is. The stops of a call take longer than most waits of others, so only from
// kShortestWaitNs on a call has waited; and calls that did not wait are not counted.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <time.h>

#include <vector>

#include "followed_process.h"

namespace tailrace::launcher {
namespace {

constexpr uint64_t kShortestWaitNs = 50'000;
constexpr uint64_t kMostDescriptors = 1024;
// The kernel's own errors of a call that a signal stops, which it makes again or ends by EINTR.
constexpr int64_t kFirstRestart = -516, kLastRestart = -512;

constexpr uint64_t kNoTimeout = UINT64_MAX;

uint64_t ns_at(const Tracee &tracee, uint64_t at) {
  const auto t = tracee.read<struct timespec>(at);
  if (!t || t->tv_sec < 0 || t->tv_sec >= (1LL << 33)) return kNoTimeout;
  return static_cast<uint64_t>(t->tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t->tv_nsec);
}

uint64_t milliseconds(uint64_t argument) {
  const int ms = descriptor(argument);
  return ms < 0 ? kNoTimeout : static_cast<uint64_t>(ms) * 1'000'000;
}

// The descriptor that became ready, or the only one; -1: neither.
int ready_one(const Tracee &tracee, uint64_t at, uint64_t n, int64_t ret) {
  std::vector<struct pollfd> fds(n <= kMostDescriptors ? n : 0);
  if (fds.empty() || ret < 0 || !tracee.read_memory(at, fds.data(), fds.size() * sizeof fds[0])) return -1;
  for (const struct pollfd &one : fds) {
    if (fds.size() == 1 || one.revents != 0) return one.fd;
  }
  return -1;
}

bool waits(uint64_t operation) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_WAIT_REQUEUE_PI: return true;
    default: return false;
  }
}

}  // namespace

void FollowedProcess::record_wait_for(int tid, const PendingCall &call, Fn fn, int64_t ret, const WaitedFor &what) {
  Record record = returned(call, fn, ret >= kFirstRestart && ret <= kLastRestart ? -EINTR : ret);
  const uint64_t ticks = record.t1 - record.t0;
  if (journal_.ns_in(ticks) < kShortestWaitNs) return;
  if (what.fd >= 0) record.file = file(Tracee(tid), what.fd);
  record.number2 = blocked_word(1, what.number, false);
  record.offset = static_cast<int64_t>(ticks);
  record.count = what.timeout_ns;
  journal_.add_wait(tid, record);
}

bool FollowedProcess::leave_waits(int tid, const PendingCall &call, int64_t ret) {
  const Tracee tracee(tid);
  const uint64_t *a = call.arguments;
  const auto wait = [&](Fn fn, uint64_t timeout_ns = kNoTimeout, int fd = -1, uint64_t number = 0) {
    record_wait_for(tid, call, fn, ret, {timeout_ns, fd, static_cast<uint32_t>(number)});
  };
  switch (call.number) {
    case SYS_nanosleep: wait(Fn::f_nanosleep, ns_at(tracee, a[0])); break;
    case SYS_clock_nanosleep:
      wait(Fn::f_clock_nanosleep, (a[1] & TIMER_ABSTIME) != 0 ? kNoTimeout : ns_at(tracee, a[2]));
      break;
#ifdef SYS_poll
    case SYS_poll: wait(Fn::f_poll, milliseconds(a[2]), ready_one(tracee, a[0], a[1], ret), a[1]); break;
    case SYS_select: wait(Fn::f_select); break;
    case SYS_epoll_wait: wait(Fn::f_epoll_wait, milliseconds(a[3]), descriptor(a[0])); break;
    case SYS_pause: wait(Fn::f_pause); break;
#endif
    case SYS_ppoll: wait(Fn::f_ppoll, ns_at(tracee, a[2]), ready_one(tracee, a[0], a[1], ret), a[1]); break;
    case SYS_pselect6: wait(Fn::f_pselect, ns_at(tracee, a[4])); break;
    case SYS_epoll_pwait: wait(Fn::f_epoll_pwait, milliseconds(a[3]), descriptor(a[0])); break;
    case SYS_epoll_pwait2: wait(Fn::f_epoll_pwait2, ns_at(tracee, a[3]), descriptor(a[0])); break;
    case SYS_futex:
      if (waits(a[1])) wait(Fn::kFutex);
      break;
    case SYS_rt_sigtimedwait: wait(Fn::f_sigtimedwait, ns_at(tracee, a[2])); break;
    case SYS_rt_sigsuspend: wait(Fn::f_sigsuspend); break;
    case SYS_msgrcv: wait(Fn::f_msgrcv); break;
    case SYS_msgsnd: wait(Fn::f_msgsnd); break;
#ifdef SYS_semop
    case SYS_semop: wait(Fn::f_semop); break;
#endif
    case SYS_semtimedop: wait(Fn::f_semtimedop, ns_at(tracee, a[3])); break;
    default: return false;
  }
  return true;
}

}  // namespace tailrace::launcher
