// Memory for data that lives as long as the process (contexts) or is recycled by size (paths of open files).
// Without malloc: a hook may run inside the application's allocator. Call with the session's table lock held.
#pragma once

#include <stddef.h>

namespace tailrace {

// Zeroed, 16-byte aligned, never freed. Null when there is no memory.
void *arena_allocate(size_t n);

// A block of at least `n` bytes, n at most 8 KiB, from a list by size; not zeroed.
void *pool_take(size_t n);
void pool_give(void *block, size_t n);

}  // namespace tailrace
