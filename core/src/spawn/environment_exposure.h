// Our settings in the environment itself, where they are hidden, for as long as libc starts a program with it by ways
// that no hook sees.
//
// What holds: what is laid over `environ` meanwhile stays in memory for a good while after, as other threads may be
// reading it; what libc changes in it is in the program's own environment afterwards.
#pragma once

#include <unistd.h>

namespace tailrace {

// `environ` as it is now: another thread may be laying something over it.
inline char **present_environment() { return __atomic_load_n(&environ, __ATOMIC_ACQUIRE); }

// False where the program can't carry us, or another thread has laid out its own context's settings just now: what is
// started is not traced then.
bool put_settings_in_sight(const char *program);
// For each time that was true.
void hide_settings_again();

}  // namespace tailrace
