// Functions of Python programs as regions, without a change of the program (TAILRACE_PYTHON_FUNCTIONS, docs/functions.md).
//
//   constructor     finds the interpreter's public functions by their names, if there is an interpreter
//   an open file    of a process whose interpreter is up: Py_AddPendingCall, the one way in that needs no GIL
//   pending call    registers with sys.monitoring (3.12), or as the profile function (3.10, 3.11), on the interpreter's thread
//   call, return    begin_region, end_region (session/region.h)
//
// Invariants:
// - No file, variable or module of the program's Python tells of it: nothing is imported with sys.monitoring, `threading`
//   before that.
// - All state but a thread's own stack is changed under the GIL.
// - A function of which kShortCalls calls in a row were shorter than the minimum, and recorded nothing, is left out from then
//   on: sys.monitoring then costs it nothing. An instant of the category "left out" has its name.
//
// The callbacks are C by the stable ABI, looked up by name, so one library serves every Python. Rejected:
// `sitecustomize` by PYTHONPATH, which hides the user's and is lost under -I and -E; a .pth file, which costs every
// start of that Python and is in no other. For short functions: to record each call, 60 ns and a slot; to drop them at
// sealing, which costs the same; to begin a region at its first I/O, with a wrong begin.
#pragma once

#include <atomic>

namespace tailrace {

extern std::atomic<bool> g_python_waits;  // for its first open file after its start

// Where the dynamic linker may be called.
void find_python();
// After a call of the program, in no signal handler of which we know; see g_python_waits.
void start_python_functions();

}  // namespace tailrace
