// libc's own function for a program that asks libc's handle for it while another tool interposes on it: the call is
// seen by our wrapper, and goes to libc without passing that tool, as the program means it to.
#pragma once

#include "format/functions.h"

namespace tailrace {

// What to give the program for `f` instead of `libc_function`; null where there is no room for one more. `next` is what
// the wrapper calls otherwise.
void *direct_way(Fn f, void *wrapper, void *next, void *libc_function);

}  // namespace tailrace
