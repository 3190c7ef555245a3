// Doing something that needs a descriptor in a program that has used up all of its own.
#pragma once

namespace tailrace {

// Calls function(argument), and where that leaves -EMFILE in `status` once more in a task that shares all with the
// caller but the table of descriptors: there it closes one, of the copy. The program's table, its locks and its files
// stay as they are, and nothing is left of the task but what the function did to memory and files. Signals must be
// blocked.
void with_descriptor(void (*function)(void *), void *argument, const int &status);

}  // namespace tailrace
