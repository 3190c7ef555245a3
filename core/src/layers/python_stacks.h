// Lets call stacks have Python's functions (session/python_frames.h), once the frames that are read from the
// interpreter's memory are the same as its own functions tell.
#pragma once

namespace tailrace {

// Where the dynamic linker may be called, and where there is an interpreter.
void find_python_stacks();
// With the GIL, while a Python function runs.
void begin_python_stacks();

}  // namespace tailrace
