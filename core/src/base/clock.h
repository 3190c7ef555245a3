// Time: ticks, which are read at every call, and their conversion to nanoseconds when a block is sealed.
//
// Ticks are the time stamp counter where the launcher found that the kernel trusts it and passed a reference sample in
// TAILRACE_CLOCK ("tsc:<ticks>:<monotonic ns>:<real-time ns>"). That saves 14 ns a clock read. Otherwise ticks are
// CLOCK_MONOTONIC.
//
// A time namespace shifts CLOCK_MONOTONIC for its processes (time_namespaces(7)), while times of processes in several
// of them are compared, and one process samples the clock for another one. So monotonic time is here that of the
// initial namespace, whoever reads it: every program calls find_time_namespace() or one of those that do before.
//
// Invariants:
// - A segment's ticks are mapped piecewise linearly. Each block begins with the value at which the last one ended and
// aims
//   at the monotonic clock's value at its own end. Times follow the kernel's clock and never run backwards.
// - Clocks are the kernel's, asked in the vDSO: libc's functions may be those of another preloaded library
// (libfaketime).
// - Two clocks of one moment are read again where the processor was another task's in between.
#pragma once

#include <stdint.h>
#include <time.h>

#include <atomic>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/text.h"

namespace tailrace {

enum class ClockKind : uint32_t { kMonotonic = 0, kTsc = 1 };

struct ClockSample {
  uint64_t ticks;
  uint64_t monotonic_ns;
};

struct ClockReference {
  ClockKind kind = ClockKind::kMonotonic;
  ClockSample sample{0, 0};
  uint64_t realtime_ns = 0;  // of the sample; 0: not given
};

// By how much this process's CLOCK_MONOTONIC is ahead of that of the initial time namespace.
extern uint64_t g_namespace_ahead_ns;

using ClockFunction = int(clockid_t, timespec *);
// The kernel's clock_gettime(2); found when it is first called.
extern std::atomic<ClockFunction *> g_kernel_clock;

inline uint64_t clock_ns(clockid_t clock) {
  timespec t{};
  g_kernel_clock.load(std::memory_order_relaxed)(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ULL + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC) - g_namespace_ahead_ns; }
inline uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }
// Of the calling thread.
inline uint64_t processor_time_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// How far the first clock is ahead of the second.
uint64_t clock_ahead_ns(clockid_t first, clockid_t second);
// What the wall clock showed when the monotonic one showed `at_ns`, if it was not set since.
inline uint64_t realtime_at(uint64_t at_ns) {
  return at_ns + g_namespace_ahead_ns + clock_ahead_ns(CLOCK_REALTIME, CLOCK_MONOTONIC);
}

inline uint64_t read_ticks(ClockKind kind) {
#if defined(__x86_64__)
  if (__builtin_expect(kind == ClockKind::kTsc, 1)) return __rdtsc();
#endif
  (void)kind;
  return monotonic_ns();
}

void find_time_namespace();
// The same, where the two clocks are not as far apart as in an earlier reading: /proc is only read then (10 us).
void find_time_namespace(uint64_t earlier_monotonic_ns, uint64_t earlier_realtime_ns);

// Both clocks, read as close together as possible.
ClockSample sample_clock(ClockKind kind);

// The launcher's value for TAILRACE_CLOCK: a tsc sample where the kernel keeps time by the counter, else "monotonic".
void write_clock_reference(Writer &out);
ClockReference parse_clock_reference(string_view text);
// Of processes that are started on this node.
ClockKind clock_kind_here();

// from_ns + (ticks - from_ticks) * rate, the rate as a 32.32 fixed-point number; not before from_ns.
struct ClockMap {
  uint64_t from_ticks = 0;
  uint64_t from_ns = 0;
  uint64_t rate_q32 = 1ULL << 32;
  // What began before: by the rate of the map before, at most so far back.
  uint64_t rate_before_q32 = 1ULL << 32;
  uint64_t reach_ns = 0;

  uint64_t to_ns(uint64_t ticks) const {
    if (ticks <= from_ticks) return from_ns;
    return from_ns + static_cast<uint64_t>((static_cast<unsigned __int128>(ticks - from_ticks) * rate_q32) >> 32);
  }
  uint64_t ns_in(uint64_t ticks) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(ticks) * rate_q32) >> 32);
  }
  uint64_t to_ns_before(uint64_t ticks) const {
    if (ticks >= from_ticks) return to_ns(ticks);
    const unsigned __int128 before = (static_cast<unsigned __int128>(from_ticks - ticks) * rate_before_q32) >> 32;
    return from_ns - (before < reach_ns ? static_cast<uint64_t>(before) : reach_ns);
  }
};

uint64_t rate_between(const ClockSample &a, const ClockSample &b);

}  // namespace tailrace
