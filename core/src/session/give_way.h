// The program takes addresses at which the core has memory (base/own_memory.h): it gets them, and recording ends in
// this process.
//
//   a hook of a call that maps ─► make_way() ─► no thread enters any more ─► those inside have left ─► unmapped
//
// Invariants:
// - What has been recorded is in the journals, which the launcher seals. The loss that is counted (Loss::kGaveWay)
// tells
//   the run that the process went on unrecorded.
// - Whoever touches memory of the core's has seen is_recording() since it last called the program's function: a call
// that
//   was begun before and ends now (read, accept) may last for hours in between.
// - What is needed afterwards lies in this library: the real functions' addresses, the locks, threads that have not
// begun
//   yet (hooks/process.cc).
//
// Rejected: to move the memory elsewhere, since other threads write to it at that moment.
#pragma once

#include "base/own_memory.h"

namespace tailrace {

// Before the program's call maps over these addresses. False: there was nothing of ours.
bool give_way(own_memory::Range range);

inline own_memory::Range range_of(const void *address, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(address) + bytes + kPage - 1) & ~(kPage - 1);
  return {begin, end < begin ? begin : end};
}

inline bool make_way(const void *address, size_t bytes) {
  const own_memory::Range range = range_of(address, bytes);
  return __builtin_expect(own_memory::may_be_in(range.begin, range.end - range.begin), 0) && give_way(range);
}

// For a call that found no gap of `bytes`: where there is one but for memory of ours in it, that goes. False: there is
// none.
bool make_gap(size_t bytes);

}  // namespace tailrace
