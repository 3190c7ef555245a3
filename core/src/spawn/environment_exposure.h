// Environment exposure: hidden settings are visible in `environ` for the duration of a call in which libc starts
// programs without a hook.
//
// Invariants:
// - The environment built for an exposure stays in memory long after it, since other threads may be reading it.
// - Changes that libc makes to it are in the program's own environment afterwards.
// - A forked child ends its parent's exposures before anything else (Session::end_exposures).
#pragma once

#include <unistd.h>

namespace tailrace {

// The present `environ`, which another thread may be replacing.
inline char **current_environment() { return __atomic_load_n(&environ, __ATOMIC_ACQUIRE); }

// Exposes the settings for `program`. False where the program can't carry the library, or another thread has exposed
// settings of another context: then what is started is untraced.
bool expose_settings(const char *program);
// To be called once for each call of expose_settings() that returned true.
void end_exposure();

}  // namespace tailrace
