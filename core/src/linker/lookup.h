// Finds functions in the tables of the objects that the process began with, without dlsym: that takes the dynamic
// linker's lock and allocates where it fails. A hook may run inside the program's allocator, under that one's lock, and
// in a thread that a library's constructor waits for, under the linker's.
#pragma once

namespace tailrace {

// The function that dlsym(RTLD_NEXT) would find for this library among the objects that the process began with; null
// where none has it.
void *find_next(const char *symbol);
// libc's own.
void *find_in_libc(const char *symbol);
// The path of this library as the dynamic linker has it; null where it is unknown.
const char *library_path();

}  // namespace tailrace
