// Whether the dynamic linker of a program that this process executes will find the library. Where it does not, it says
// so on the program's standard error, so the library is left out of the program's environment.
#pragma once

#include "format/program.h"

namespace tailrace {

// kNoDescriptor, kUnreachable, kUnreadable or kNone. Makes system calls only, on the stack: a vfork child may call it.
Obstacle library_obstacle();

}  // namespace tailrace
