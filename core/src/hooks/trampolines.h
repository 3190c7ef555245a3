// Trampolines: libc's own function for a program that looks it up by libc's handle while another tool interposes on it.
// Our wrapper records the call, and the call goes to libc without passing through that tool, as the program intends.
#pragma once

#include "format/functions.h"

namespace tailrace {

// The address to give the program for `f` instead of `libc_function`; null where there is no room for one more. All
// other calls of `wrapper` go on to `next`.
void *make_trampoline(Fn f, void *wrapper, void *next, void *libc_function);

}  // namespace tailrace
