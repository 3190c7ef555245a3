// The core's arena for fuzzing: each piece an allocation of its own, so that the sanitizer checks its ends, and all
// freed after an input.
#include <vector>

#include "base/arena.h"
#include "fuzz.h"

namespace {
std::vector<void *> g_taken;
}  // namespace

namespace tailrace {

void *arena_allocate(size_t n) {
  void *p = calloc(1, n);
  g_taken.push_back(p);
  return p;
}

void *pool_take(size_t n) { return arena_allocate(n); }
void pool_give(void *, size_t) {}

void fuzz::forget_arena() {
  for (void *p : g_taken) free(p);
  g_taken.clear();
}

}  // namespace tailrace
