// Calls on ranges of addresses, where the core may have memory: for the program there is none (session/give_way.h says
// what happens where it takes the addresses).
#pragma once

#include <errno.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "session/give_way.h"
#include "session/session.h"

namespace tailrace {

// What the kernel does where nothing is mapped: munmap passes it over; mprotect, mlock and mincore end with ENOMEM;
// madvise and msync go on, and have ENOMEM at the end.
enum class Unmapped { kPassed, kEnds, kFails };

// real(address, bytes) for the parts of the range that are not ours.
template <class Real>
int for_programs_memory(void *address, size_t n, Unmapped unmapped, Real &&real) {
  own_memory::Range rest = range_of(address, n);
  // The kernel refuses a range that does not begin with a page, or locks the page.
  const bool is_plain = rest.begin != reinterpret_cast<uintptr_t>(address);
  if (__builtin_expect(is_plain || !own_memory::may_be_in(rest.begin, rest.end - rest.begin), 1))
    return real(address, n);
  // A forked child that has not recorded yet has its parent's table.
  enter();
  bool fails = false;
  for (;;) {
    const own_memory::Range ours = own_memory::next(rest);
    if (ours.is_empty() && rest.begin == reinterpret_cast<uintptr_t>(address)) return real(address, n);
    const size_t bytes = (ours.is_empty() ? rest.end : ours.begin) - rest.begin;
    if (bytes && real(reinterpret_cast<void *>(rest.begin), bytes) < 0) {
      if (unmapped != Unmapped::kFails || errno != ENOMEM) return -1;
      fails = true;
    }
    if (ours.is_empty()) break;
    fails = fails || unmapped != Unmapped::kPassed;
    rest.begin = ours.end;
    if (unmapped == Unmapped::kEnds || rest.is_empty()) break;
  }
  if (fails) errno = ENOMEM;
  return fails ? -1 : 0;
}

constexpr int kTakesItsAddress = MAP_FIXED | 0x100000;  // MAP_FIXED_NOREPLACE, which old headers lack

// Where there is no gap of that size, but for memory of ours in it, once more.
template <class Real>
void *map_for_program(void *address, size_t n, int flags, Real &&real) {
  if (flags & kTakesItsAddress) make_way(address, n);
  void *map = real();
  if (__builtin_expect(map == MAP_FAILED, 0) && errno == ENOMEM && make_gap(n)) map = real();
  return map;
}

struct Remapping {
  void *address;
  size_t n, wanted;
  int flags;
  void *target;
};

// Where memory of ours is, the program has nothing to move.
template <class Real>
void *remap_for_program(const Remapping &r, Real &&real) {
  if (r.flags & MREMAP_FIXED) make_way(r.target, r.wanted);
  const own_memory::Range from = range_of(r.address, r.n ? r.n : 1);
  if (own_memory::may_be_in(from.begin, from.end - from.begin) && !own_memory::next(from).is_empty()) {
    errno = EFAULT;
    return MAP_FAILED;
  }
  void *map = real();
  const bool is_out_of_room = map == MAP_FAILED && errno == ENOMEM && (r.flags & MREMAP_MAYMOVE);
  return is_out_of_room && make_gap(r.wanted) ? real() : map;
}

// Before shmat(2). The segment's size is the kernel's to tell.
inline void make_way_for_segment(int id, const void *at) {
  constexpr size_t kMost = size_t{1} << 40;
  if (!at || !own_memory::may_be_in(reinterpret_cast<uintptr_t>(at), kMost)) return;
  const int saved = errno;
  struct shmid_ds about;
  if (shmctl(id, IPC_STAT, &about) == 0) make_way(at, about.shm_segsz);
  errno = saved;
}

}  // namespace tailrace
