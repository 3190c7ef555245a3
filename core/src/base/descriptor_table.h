// Work that needs a descriptor, in a program that has used up all of its own.
#pragma once

namespace tailrace {

// Calls function(argument). Where that leaves -EMFILE in `status`, calls it once more in a task that shares everything
// with the caller but the descriptor table: there it closes one descriptor of the copy. The program's table, locks and
// files stay as they are, and the task leaves nothing behind but what the function did to memory and files. Signals
// must be blocked.
void with_descriptor(void (*function)(void *), void *argument, const int &status);

}  // namespace tailrace
