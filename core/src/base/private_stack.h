// Calls a function on a stack of the core's: deflate needs some 10 KiB of stack, and the application's may have less
// left.
#pragma once

#include <stddef.h>

namespace tailrace {

constexpr size_t kPrivateStackBytes = 128 * 1024;

// Calls function(argument) with the stack that ends at `top` (16-byte aligned), and returns on the caller's. All
// signals must be blocked, and one caller at a time uses a stack.
void call_on_stack(void (*function)(void *), void *argument, void *top);

}  // namespace tailrace
