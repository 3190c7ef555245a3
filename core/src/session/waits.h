// Waits: calls that last until time has passed, a descriptor is ready, or another thread, process or signal comes. A
// hook makes a Waiting before it calls the real function, and passes it to one of the functions below afterwards.
//
//   a call that did not wait   counted, with its time, in one slot of its function          at_once
//   a short wait               added up in one slot with like ones around it                calls, span
//   any other                  a record of its own
//
// A call that lasts kShortestWait has waited. The kernel knows better (voluntary switches), but to ask takes longer
// than most of these calls. One that does not wait is a system call or less: 0.1 to 1 us, some more with hundreds of
// descriptors. To be switched out and in again takes 2 us at least, and as a rule 20 to 50 until a processor is woken.
// From kShortestWait on a record costs less than a hundredth of the wait; what is shorter is in the sums, so that none
// is lost.
//
// Programs wait in loops: for data that does not come, for a lock that others hold (Python's interpreter, garbage
// collectors). Short waits that follow each other closely are one line of at most kLongestSpan, so a thread writes some
// lines a second, whatever it does, and what the line does not tell is where in that span the pauses were.
//
// Invariants:
// - A wait holds no lock and no flag while the real function runs, so signals, longjmp and cancellation pass through
//   it.
// - Waiting needs no Thread: conditions and semaphores are used inside of allocators and by threads that do nothing but
//   wait. A thread that never waited long has no segment because of it.
// - A slot that is added to lies in the epoch of its thread's segment that is not sealed (forget_waits).
// - Nothing here changes errno.
#pragma once

#include <errno.h>
#include <time.h>

#include "session/record.h"

namespace tailrace {

constexpr uint64_t kShortestWaitUs = 10;
// In kShortestWaitUs: from here on a wait is a record of its own; how long one line of several lasts at most; how long
// the pause between two of them may be.
constexpr uint64_t kOwnLine = 10'000, kLongestSpan = 25'000, kLongestPause = 1000;

constexpr uint64_t kNoTimeout = UINT64_MAX;
inline uint64_t ns_of(const timespec &t) {
  const bool is_valid = t.tv_sec >= 0 && t.tv_sec < (1LL << 33) && t.tv_nsec >= 0 && t.tv_nsec < 1'000'000'000;
  return is_valid ? static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec) : kNoTimeout;
}

class Waiting {
 public:
  __attribute__((always_inline)) Waiting() : t0_(is_recorded() ? now_ticks() : 0) {}
  explicit operator bool() const { return t0_ != 0; }
  uint64_t t0() const { return t0_; }

 private:
  static bool is_recorded() { return tailrace::is_recording() && !is_vfork_child() && !t_confined; }

  uint64_t t0_;
};

// What a wait was for.
struct WaitedFor {
  uint64_t timeout_ns = kNoTimeout;
  int fd = -1;
  uint32_t number = 0;  // of descriptors, or the joined thread's
};

// A call that is over, after `ticks`. 0: it took no time that matters, and no clock was read.
void count_at_once(Thread *t, Fn fn, uint64_t ticks, uint64_t now);
void count_at_once_slowly(Fn fn, uint64_t ticks, uint64_t now);
void record_long_wait(Fn fn, uint64_t t0, uint64_t t1, int64_t result, const WaitedFor &what);

// A call that could not wait: its timeout was 0, or what it asked for was there.
inline void returned_at_once(Fn fn) {
  Thread *t = t_thread;
  if (__builtin_expect(t && g_wiped.alive.load(std::memory_order_relaxed), 1)) count_at_once(t, fn, 0, 0);
}

inline bool has_waited(const Waiting &waiting, uint64_t now) {
  return now - waiting.t0() >= g_session.shortest_wait_ticks;
}

// A call that may have waited, with its result as a record has it (result_of). `what`, a function, is called if it has.
template <class What>
inline void record_waited_result(const Waiting &waiting, Fn fn, int64_t result, What what) {
  if (!waiting) return;
  const uint64_t now = now_ticks();
  if (__builtin_expect(has_waited(waiting, now), 0)) {
    const int saved = errno;
    record_long_wait(fn, waiting.t0(), now, result, what());
    errno = saved;
    return;
  }
  Thread *t = t_thread;
  if (__builtin_expect(t && g_wiped.alive.load(std::memory_order_relaxed), 1)) {
    count_at_once(t, fn, now - waiting.t0(), now);
  }
}
// The same for what tells its error by errno.
template <class What>
inline void record_waited(const Waiting &waiting, Fn fn, int64_t ret, What what) {
  record_waited_result(waiting, fn, result_of(ret), what);
}

// The Thread's slots that may be added to are sealed, or somebody else's.
void forget_waits(Thread *t);

}  // namespace tailrace
