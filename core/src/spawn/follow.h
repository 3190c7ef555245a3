// Asks the launcher to follow a program that is to be followed, before it is started (format/follow_request.h).
#pragma once

#include "format/follow_request.h"
#include "spawn/injection.h"

namespace tailrace {

// Returns when the program is followed or is known not to be: after 2 s at the latest, at once where nobody follows.
// Makes system calls only, on the stack: a vfork child may call it.
void ask_to_follow(FollowKind kind, const Program &program, string_view tags);

}  // namespace tailrace
