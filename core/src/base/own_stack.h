// Calling a function on a stack of our own: deflate wants some 10 KiB of it, and the application's may have less left.
#pragma once

#include <stddef.h>

namespace tailrace {

constexpr size_t kOwnStackBytes = 128 * 1024;

// Calls function(argument) with the stack that ends at `top` (16-byte aligned), and comes back on the caller's. All
// signals must be blocked, and one caller at a time uses a stack.
void call_on_stack(void (*function)(void *), void *argument, void *top);

}  // namespace tailrace
