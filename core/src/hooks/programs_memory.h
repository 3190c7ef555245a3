// Calls on ranges of addresses, where the core may have memory: for the program there is none (session/give_way.h says what
// happens where it takes the addresses).
#pragma once

#include <errno.h>

#include "session/give_way.h"
#include "session/session.h"

namespace tailrace {

// What the kernel does where nothing is mapped: munmap passes it over; mprotect, mlock and mincore end with ENOMEM; madvise
// and msync go on, and have ENOMEM at the end.
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

}  // namespace tailrace
