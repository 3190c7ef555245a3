// The bytes that the dynamic linker reads of libraries, for which there is no hook, and whether dl_iterate_phdr may be
// called: in a forked child of a process with threads, the dynamic linker's lock may be held for ever by a thread that
// the child does not have (fork(2)).
#pragma once

#include <atomic>

#include "session/session.h"

namespace tailrace {

// The bytes that the dynamic linker has read of all objects that were ever loaded, including those that a forked child
// inherited, and of files that it did not load. Where dl_iterate_phdr may not be called, as of the last call.
int64_t library_bytes();

// Adds bytes of a file that was loaded already under another name, or that is no library.
void count_rejected(int64_t bytes);

// Whether dl_iterate_phdr is sure to return.
bool linker_answers();

// In a forked child, before anything else: notes the libraries that it inherits. `by_libc`: the fork was libc's, so the
// child has no other thread yet.
void inherit_libraries(bool by_libc);

extern std::atomic<bool> g_handle_wanted;
// After dlsym found something by this handle. The handle of an object that the child itself loaded proves that the lock
// is free: then it returns true, and linker_answers() is true from here on.
inline bool handle_wanted() { return __builtin_expect(g_handle_wanted.load(std::memory_order_relaxed), 0); }
bool take_handle(void *handle);

}  // namespace tailrace
