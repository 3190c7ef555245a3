// See base/arena.h.
#include "base/arena.h"

#include "base/own_memory.h"

namespace tailrace {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
constexpr size_t kClasses = 8;  // 64 bytes to 8 KiB, powers of two

// Most processes need no more.
alignas(16) char g_first[kChunkBytes];
char *g_next = g_first;
size_t g_left = kChunkBytes;

struct FreeBlock {
  FreeBlock *next;
};
FreeBlock *g_free[kClasses];

size_t class_of(size_t n) {
  size_t c = 0;
  while (c < kClasses && (size_t{64} << c) < n) ++c;
  return c;
}

}  // namespace

void *arena_allocate(size_t n) {
  n = (n + 15) & ~size_t{15};
  if (n > kChunkBytes) return own_memory::pages(n);
  if (n > g_left) {
    auto *chunk = static_cast<char *>(own_memory::pages(kChunkBytes));
    if (!chunk) return nullptr;
    g_next = chunk;
    g_left = kChunkBytes;
  }
  void *p = g_next;
  g_next += n;
  g_left -= n;
  return p;
}

void *pool_take(size_t n) {
  size_t c = class_of(n);
  if (c >= kClasses) return nullptr;
  if (FreeBlock *block = g_free[c]) {
    g_free[c] = block->next;
    return block;
  }
  return arena_allocate(size_t{64} << c);
}

void pool_give(void *block, size_t n) {
  auto *b = static_cast<FreeBlock *>(block);
  size_t c = class_of(n);
  b->next = g_free[c];
  g_free[c] = b;
}

}  // namespace tailrace
