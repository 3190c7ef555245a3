// Looks functions up without the dynamic linker's lock, which dlsym takes. A library's constructor runs under it, and
// may wait for a thread that it has started: a hook in that thread would wait for ever.
#pragma once

#include <stdint.h>

namespace tailrace {

// The function that dlsym(RTLD_NEXT) finds from this library among the objects that the process began with. 0: there is
// none, or only dlsym can tell.
uintptr_t find_next(const char *symbol);
// The same of libc.
uintptr_t find_in_libc(const char *symbol);

}  // namespace tailrace
