// A table of descriptors of the core's own: where the program has used up its own, and where other threads close what
// they find in it.
#pragma once

namespace tailrace {

// Calls function(argument) in a task that shares everything with the caller but the table, which is empty, or, where
// the kernel can't or `is_filtered` (by seccomp), a copy with a free place. The program's table, locks and files stay
// as they are, and the task leaves nothing behind but what the function did to memory and files. False: it was not
// called. Signals must be blocked.
bool call_in_own_table(void (*function)(void *), void *argument, bool is_filtered);

}  // namespace tailrace
