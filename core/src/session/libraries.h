// What the dynamic linker reads of the libraries that it loads, which no hook sees, and whether it may be asked at all:
// in a child of a process with threads, one that isn't there may have held its lock for ever (fork(2)).
#pragma once

#include <atomic>

#include "session/session.h"

namespace tailrace {

// The bytes that it has read of all objects that were ever loaded, those that a forked child has from its parents
// included, and of files that it did not load. Where it may not be asked, as of the last time.
int64_t library_bytes();

// Of a file that was loaded already, under another name, or that is no library.
void count_read_in_vain(int64_t bytes);

// Whether dl_iterate_phdr is sure to return.
bool linker_answers();

// In a forked child, before anything else: what it has from its parent. `by_libc`: no other thread was there yet.
void inherit_libraries(bool by_libc);

extern std::atomic<bool> g_handle_wanted;
// dlsym has just found something by this handle. One of an object that the child loaded shows that the lock is free:
// true, and the linker answers from here on.
inline bool handle_wanted() { return __builtin_expect(g_handle_wanted.load(std::memory_order_relaxed), 0); }
bool take_handle(void *handle);

}  // namespace tailrace
