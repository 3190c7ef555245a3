// Hooks: what waits without moving data: for time (sleep), for descriptors (poll), for other threads (conditions,
// semaphores, joins, barriers, read-write locks, System V's queues and semaphores) and for signals. session/waits.h
// says what becomes a record. hooks/wait.cc has the waits for children, hooks/locks.cc the locks of files,
// hooks/syscall.cc futex(2).
//
// - Semaphores and read-write locks are tried first: where that succeeds the call was all that the real one would have
//   done, and no clock is read.
// - pthread_mutex_lock has no hook. It is the most frequent of all and a few nanoseconds where it is free, which a hook
//   would double, and allocators call it for each block. What it waits is what remains of a thread's time ("blocked
//   elsewhere").
// - pthread_cond_* have two versions on x86_64. The real functions are found in their default version
//   (linker/lookup.h). Programs of before glibc 2.3.2, whose conditions have another form, would get them, too; for
//   x86_64 none is left.
// - What is a cancellation point stays one: where something is tried first, a pending request is looked for before.
// - Nothing that the program points to is read before the real function has, but for what libc itself reads there.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "linker/real.h"
#include "session/waits.h"

using namespace tailrace;

// Of later versions of glibc than the oldest that the core is built with.
extern "C" {
int sem_clockwait(sem_t *, clockid_t, const struct timespec *);
int pthread_cond_clockwait(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
int pthread_clockjoin_np(pthread_t, void **, clockid_t, const struct timespec *);
int epoll_pwait2(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
}

namespace {

// ---- for time ----

uint64_t seconds(unsigned n) { return uint64_t{n} * 1'000'000'000; }

// How long before `deadline` the wait began.
uint64_t ns_until(clockid_t clock, const timespec &deadline, const Waiting &waiting) {
  timespec now;
  const uint64_t end = ns_of(deadline);
  if (end == kNoTimeout || clock_gettime(clock, &now) != 0) return kNoTimeout;
  const auto waited = static_cast<unsigned __int128>(now_ticks() - waiting.t0()) * g_session.reference_rate_q32;
  const uint64_t begin = ns_of(now) - static_cast<uint64_t>(waited >> 32);
  return end > begin ? end - begin : 0;
}

WaitedFor timeout(uint64_t ns) {
  WaitedFor what;
  what.timeout_ns = ns;
  return what;
}

// Of a call that tells its error by its value.
int64_t result_of_status(int error) { return -static_cast<int64_t>(error < 0 ? 0 : error); }

}  // namespace

TAILRACE_HOOK unsigned sleep(unsigned n) {
  if (n == 0) {
    returned_at_once(Fn::f_sleep);
    return REAL(sleep)(n);
  }
  Waiting waiting;
  const unsigned left = REAL(sleep)(n);
  record_waited(waiting, Fn::f_sleep, 0, [=] { return timeout(seconds(n)); });
  return left;
}

TAILRACE_HOOK int usleep(useconds_t n) {
  if (n == 0) {
    returned_at_once(Fn::f_usleep);
    return REAL(usleep)(n);
  }
  Waiting waiting;
  const int ret = REAL(usleep)(n);
  record_waited(waiting, Fn::f_usleep, ret, [=] { return timeout(uint64_t{n} * 1000); });
  return ret;
}

TAILRACE_HOOK int nanosleep(const struct timespec *wanted, struct timespec *left) {
  Waiting waiting;
  const int ret = REAL(nanosleep)(wanted, left);
  record_waited(waiting, Fn::f_nanosleep, ret,
                [=] { return timeout(ret < 0 && errno == EFAULT ? kNoTimeout : ns_of(*wanted)); });
  return ret;
}

TAILRACE_HOOK int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
  Waiting waiting;
  const int error = REAL(clock_nanosleep)(clock, flags, wanted, left);
  record_waited_result(waiting, Fn::f_clock_nanosleep, result_of_status(error), [&] {
    if (error == EFAULT) return WaitedFor{};
    return timeout(flags & TIMER_ABSTIME ? ns_until(clock, *wanted, waiting) : ns_of(*wanted));
  });
  return error;
}

TAILRACE_HOOK int thrd_sleep(const struct timespec *wanted, struct timespec *left) {
  Waiting waiting;
  const int ret = REAL(thrd_sleep)(wanted, left);
  record_waited_result(waiting, Fn::f_thrd_sleep, ret < 0 ? -EINTR : 0,
                       [=] { return ret < -1 ? WaitedFor{} : timeout(ns_of(*wanted)); });
  return ret;
}

// ---- for descriptors ----

namespace {

constexpr nfds_t kMostLookedAt = 4096;

WaitedFor descriptors(uint64_t timeout_ns, uint64_t n, int fd) {
  WaitedFor what;
  what.timeout_ns = timeout_ns;
  what.number = static_cast<uint32_t>(n);
  what.fd = fd;
  return what;
}

// The descriptor that became ready, or the only one that there is; -1: neither.
int ready_one(const struct pollfd *fds, nfds_t n, int ret) {
  if (n == 1 && ret >= 0) return fds[0].fd;
  for (nfds_t i = 0; ret > 0 && i < n && i < kMostLookedAt; ++i) {
    if (fds[i].revents) return fds[i].fd;
  }
  return -1;
}

int first_in(const fd_set *set, int n) {
  for (int fd = 0; set && fd < n && fd < FD_SETSIZE; ++fd) {
    if (FD_ISSET(fd, set)) return fd;
  }
  return -1;
}

int ready_one(const fd_set *in, const fd_set *out, const fd_set *other, int n, int ret) {
  if (ret <= 0) return -1;
  for (const fd_set *set : {in, out, other}) {
    const int fd = first_in(set, n);
    if (fd >= 0) return fd;
  }
  return -1;
}

uint64_t milliseconds(int n) { return n < 0 ? kNoTimeout : static_cast<uint64_t>(n) * 1'000'000; }

bool is_zero(const struct timespec *t) { return t && t->tv_sec == 0 && t->tv_nsec == 0; }
bool is_zero(const struct timeval *t) { return t && t->tv_sec == 0 && t->tv_usec == 0; }
uint64_t ns_of(const struct timespec *t) { return t ? tailrace::ns_of(*t) : kNoTimeout; }
uint64_t ns_of(const struct timeval *t) {
  return t ? tailrace::ns_of(timespec{t->tv_sec, t->tv_usec * 1000}) : kNoTimeout;
}

// The descriptor that became ready, where the events of the instance are known to have it; else the instance itself.
int ready_one(int epoll, const struct epoll_event *events, int ret) {
  const OpenFile *instance = ret > 0 && enter() ? known_file_of(epoll) : nullptr;
  const bool is_known = instance && instance->epoll_data.load(std::memory_order_relaxed) == EpollData::kDescriptor;
  return is_known ? events[0].data.fd : epoll;
}

template <class Real, class What>
inline int polled(Fn fn, bool looks_only, Real real, What what) {
  if (looks_only) {
    returned_at_once(fn);
    return real();
  }
  Waiting waiting;
  const int ret = real();
  record_waited(waiting, fn, ret, [&] { return what(ret); });
  return ret;
}

}  // namespace

#define POLL_HOOK(symbol, parameters, arguments, is_none, ns)                 \
  TAILRACE_HOOK int symbol parameters {                                       \
    return polled(                                                            \
        Fn::f_##symbol, is_none, [&] { return REAL(symbol) arguments; },      \
        [&](int ret) { return descriptors(ns, n, ready_one(fds, n, ret)); }); \
  }
POLL_HOOK(poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), ms == 0, milliseconds(ms))
POLL_HOOK(__poll_chk, (struct pollfd * fds, nfds_t n, int ms, size_t size), (fds, n, ms, size), ms == 0,
          milliseconds(ms))
POLL_HOOK(ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *mask), (fds, n, t, mask),
          is_zero(t), ns_of(t))
POLL_HOOK(__ppoll_chk, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size),
          (fds, n, t, mask, size), is_zero(t), ns_of(t))

// Linux leaves in `t` what remained of it.
TAILRACE_HOOK int select(int n, fd_set *in, fd_set *out, fd_set *other, struct timeval *t) {
  const uint64_t ns = ns_of(t);
  return polled(
      Fn::f_select, is_zero(t), [&] { return REAL(select)(n, in, out, other, t); },
      [&](int ret) { return descriptors(ns, 0, ready_one(in, out, other, n, ret)); });
}

TAILRACE_HOOK int pselect(int n, fd_set *in, fd_set *out, fd_set *other, const struct timespec *t,
                          const sigset_t *mask) {
  return polled(
      Fn::f_pselect, is_zero(t), [&] { return REAL(pselect)(n, in, out, other, t, mask); },
      [&](int ret) { return descriptors(ns_of(t), 0, ready_one(in, out, other, n, ret)); });
}

TAILRACE_HOOK int epoll_wait(int fd, struct epoll_event *events, int most, int ms) {
  return polled(
      Fn::f_epoll_wait, ms == 0, [&] { return REAL(epoll_wait)(fd, events, most, ms); },
      [&](int ret) { return descriptors(milliseconds(ms), 0, ready_one(fd, events, ret)); });
}

TAILRACE_HOOK int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask) {
  return polled(
      Fn::f_epoll_pwait, ms == 0, [&] { return REAL(epoll_pwait)(fd, events, most, ms, mask); },
      [&](int ret) { return descriptors(milliseconds(ms), 0, ready_one(fd, events, ret)); });
}

TAILRACE_HOOK int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *t,
                               const sigset_t *mask) {
  return polled(
      Fn::f_epoll_pwait2, false, [&] { return REAL(epoll_pwait2)(fd, events, most, t, mask); },
      [&](int ret) {
        const uint64_t ns = ret < 0 && errno == EFAULT ? kNoTimeout : ns_of(t);
        return descriptors(ns, 0, ready_one(fd, events, ret));
      });
}

// What an event will tell is the program's: most give back the descriptor (libuv, Python's and Java's selectors).
TAILRACE_HOOK int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) noexcept {
  const int ret = REAL(epoll_ctl)(epoll, operation, fd, event);
  if (ret != 0 || operation == EPOLL_CTL_DEL || !enter()) return ret;
  OpenFile *instance = file_of(epoll);
  if (!instance) return ret;
  const bool is_known = instance->epoll_data.load(std::memory_order_relaxed) != EpollData::kOther;
  instance->epoll_data.store(is_known && event->data.fd == fd ? EpollData::kDescriptor : EpollData::kOther,
                             std::memory_order_relaxed);
  return ret;
}

// ---- for other threads ----

// Of calls that return an error; a deadline is read by libc itself, or in the kernel when it has waited.
#define STATUS_HOOK(symbol, parameters, arguments, ...)                                                             \
  TAILRACE_HOOK int symbol parameters {                                                                             \
    Waiting waiting;                                                                                                \
    const int error = REAL(symbol) arguments;                                                                       \
    record_waited_result(waiting, Fn::f_##symbol, result_of_status(error), [&] { return WaitedFor{__VA_ARGS__}; }); \
    return error;                                                                                                   \
  }
STATUS_HOOK(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
// Its clock is the condition's.
STATUS_HOOK(pthread_cond_timedwait,
            (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *deadline),
            (condition, mutex, deadline))
STATUS_HOOK(pthread_cond_clockwait,
            (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline),
            (condition, mutex, clock, deadline), ns_until(clock, *deadline, waiting))

#define C11_HOOK(symbol, parameters, arguments)                                                   \
  TAILRACE_HOOK int symbol parameters {                                                           \
    Waiting waiting;                                                                              \
    const int ret = REAL(symbol) arguments;                                                       \
    const int64_t result = ret == thrd_success ? 0 : ret == thrd_timedout ? -ETIMEDOUT : -EINVAL; \
    record_waited_result(waiting, Fn::f_##symbol, result, [] { return WaitedFor{}; });            \
    return ret;                                                                                   \
  }
C11_HOOK(cnd_wait, (cnd_t * condition, mtx_t *mutex), (condition, mutex))
C11_HOOK(cnd_timedwait, (cnd_t * condition, mtx_t *mutex, const struct timespec *deadline),
         (condition, mutex, deadline))

namespace {

// sem_wait and the like, whose first attempt is sem_trywait.
template <class Real, class What>
inline int down(Fn fn, sem_t *semaphore, Real real, What what) {
  pthread_testcancel();
  const int saved = errno;
  if (sem_trywait(semaphore) == 0) {
    returned_at_once(fn);
    return 0;
  }
  errno = saved;
  Waiting waiting;
  const int ret = real();
  record_waited(waiting, fn, ret, [&] { return what(waiting); });
  return ret;
}

}  // namespace

TAILRACE_HOOK int sem_wait(sem_t *semaphore) {
  return down(
      Fn::f_sem_wait, semaphore, [=] { return REAL(sem_wait)(semaphore); },
      [](const Waiting &) { return WaitedFor{}; });
}

TAILRACE_HOOK int sem_timedwait(sem_t *semaphore, const struct timespec *deadline) {
  return down(
      Fn::f_sem_timedwait, semaphore, [=] { return REAL(sem_timedwait)(semaphore, deadline); },
      [=](const Waiting &waiting) { return timeout(ns_until(CLOCK_REALTIME, *deadline, waiting)); });
}

TAILRACE_HOOK int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
  return down(
      Fn::f_sem_clockwait, semaphore, [=] { return REAL(sem_clockwait)(semaphore, clock, deadline); },
      [=](const Waiting &waiting) { return timeout(ns_until(clock, *deadline, waiting)); });
}

namespace {

// The thread's number, where it has recorded something. To be asked before it is joined: then its handle is free.
WaitedFor joined(pthread_t thread) {
  WaitedFor what;
  if (!is_recording() || is_vfork_child()) return what;
  Locked lock(g_wiped.table);
  for (const Thread *t = g_session.threads; t; t = t->next_thread) {
    if (t->handle == thread) what.number = t->tid;
  }
  return what;
}

}  // namespace

#define JOIN_HOOK(symbol, parameters, arguments)                                                  \
  TAILRACE_HOOK int symbol parameters {                                                           \
    const WaitedFor what = joined(thread);                                                        \
    Waiting waiting;                                                                              \
    const int error = REAL(symbol) arguments;                                                     \
    record_waited_result(waiting, Fn::f_##symbol, result_of_status(error), [&] { return what; }); \
    return error;                                                                                 \
  }
JOIN_HOOK(pthread_join, (pthread_t thread, void **result), (thread, result))
JOIN_HOOK(pthread_timedjoin_np, (pthread_t thread, void **result, const struct timespec *deadline),
          (thread, result, deadline))
JOIN_HOOK(pthread_clockjoin_np, (pthread_t thread, void **result, clockid_t clock, const struct timespec *deadline),
          (thread, result, clock, deadline))

TAILRACE_HOOK int thrd_join(thrd_t thread, int *result) {
  const WaitedFor what = joined(thread);
  Waiting waiting;
  const int ret = REAL(thrd_join)(thread, result);
  record_waited_result(waiting, Fn::f_thrd_join, ret == thrd_success ? 0 : -EINVAL, [&] { return what; });
  return ret;
}

TAILRACE_HOOK int pthread_barrier_wait(pthread_barrier_t *barrier) noexcept {
  Waiting waiting;
  const int ret = REAL(pthread_barrier_wait)(barrier);
  record_waited_result(waiting, Fn::f_pthread_barrier_wait,
                       ret == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : result_of_status(ret), [] { return WaitedFor{}; });
  return ret;
}

#define RWLOCK_HOOK(symbol, attempt)                                                                    \
  TAILRACE_HOOK int symbol(pthread_rwlock_t *lock) noexcept {                                           \
    if (attempt(lock) == 0) {                                                                           \
      returned_at_once(Fn::f_##symbol);                                                                 \
      return 0;                                                                                         \
    }                                                                                                   \
    Waiting waiting;                                                                                    \
    const int error = REAL(symbol)(lock);                                                               \
    record_waited_result(waiting, Fn::f_##symbol, result_of_status(error), [] { return WaitedFor{}; }); \
    return error;                                                                                       \
  }
RWLOCK_HOOK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock)
RWLOCK_HOOK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock)

// What does not wait by its flags, or because of what it asks for, costs two readings of the clock.
#define CALL_HOOK(type, symbol, parameters, arguments, ...)                              \
  TAILRACE_HOOK type symbol parameters {                                                 \
    Waiting waiting;                                                                     \
    const type ret = REAL(symbol) arguments;                                             \
    record_waited(waiting, Fn::f_##symbol, ret, [&] { return WaitedFor{__VA_ARGS__}; }); \
    return ret;                                                                          \
  }
CALL_HOOK(ssize_t, msgrcv, (int queue, void *message, size_t size, long type, int flags),
          (queue, message, size, type, flags))
CALL_HOOK(int, msgsnd, (int queue, const void *message, size_t size, int flags), (queue, message, size, flags))
CALL_HOOK(int, semop, (int set, struct sembuf *operations, size_t n) noexcept, (set, operations, n))
CALL_HOOK(int, semtimedop, (int set, struct sembuf *operations, size_t n, const struct timespec *t) noexcept,
          (set, operations, n, t), ret < 0 && errno == EFAULT ? kNoTimeout : ns_of(t))

// ---- for signals ----

STATUS_HOOK(sigwait, (const sigset_t *set, int *signal), (set, signal))
CALL_HOOK(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info), (set, info))
CALL_HOOK(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *t), (set, info, t),
          ret < 0 && errno == EFAULT ? kNoTimeout : ns_of(t))
CALL_HOOK(int, sigsuspend, (const sigset_t *mask), (mask))
CALL_HOOK(int, pause, (), ())
