// Hooks: calls on ranges of addresses that say nothing of files. They are not recorded: the core's memory is to be left
// as it is, and the program is not to see it.
#include <sys/mman.h>
#include <sys/shm.h>

#include "hooks/programs_memory.h"
#include "linker/real.h"

using namespace tailrace;

#define RANGE_HOOK(symbol, unmapped, parameters, call)                         \
  TAILRACE_HOOK int symbol parameters noexcept {                               \
    auto real = [&](void *begin, size_t n) { return REAL(symbol) call; };      \
    return for_programs_memory(const_cast<void *>(at), bytes, unmapped, real); \
  }
RANGE_HOOK(madvise, Unmapped::kFails, (void *at, size_t bytes, int advice), (begin, n, advice))
RANGE_HOOK(mincore, Unmapped::kEnds, (void *at, size_t bytes, unsigned char *pages), (begin, n, pages))
RANGE_HOOK(mlock, Unmapped::kEnds, (const void *at, size_t bytes), (begin, n))
RANGE_HOOK(mlock2, Unmapped::kEnds, (const void *at, size_t bytes, unsigned flags), (begin, n, flags))
RANGE_HOOK(munlock, Unmapped::kEnds, (const void *at, size_t bytes), (begin, n))
RANGE_HOOK(pkey_mprotect, Unmapped::kEnds, (void *at, size_t bytes, int protection, int key),
           (begin, n, protection, key))

TAILRACE_HOOK void *shmat(int id, const void *at, int flags) noexcept {
  make_way_for_segment(id, at);
  return REAL(shmat)(id, at, flags);
}
