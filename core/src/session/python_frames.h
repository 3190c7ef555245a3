// The Python functions that the calling thread is in, read from the interpreter's memory in a hook.
//
//   PyGILState_GetThisThreadState -> thread state -> innermost frame -> the one before it -> ...
//   frame -> code object and instruction;   code object -> file, function, first line, table of lines
//
// A thread that waits in a system call has released the GIL, so no function of the interpreter may be called. But only
// the thread itself changes its frames, and it is in the hook. Code objects live as long as a frame runs them.
//
// Invariants: memory is read by the kernel's copy, so that a wrong address ends the walk and nothing else. The places
// of fields are those of an interpreter's version, and are used only after frames read so were the same as the
// interpreter's own functions tell (layers/python_stacks.h).
#pragma once

#include <atomic>

#include "base/checked_memory.h"
#include "base/text.h"

namespace tailrace {

// Where the fields are, in bytes. -1: there is none.
struct PythonLayout {
  int version;                   // minor, of Python 3
  int thread_frame;              // of the thread state: the innermost frame, or what points to it
  int indirect;                  // that one's field
  int code, previous, position;  // of a frame. position: 3.10 an int32, in instructions; then a pointer
  int owner;                     // a byte that is 3 for the interpreter's own frames
  int first_line, file, name, lines, instructions;  // of a code object
};

struct PythonInterpreter {
  const PythonLayout *layout;
  void *(*this_thread)();  // PyGILState_GetThisThreadState
  uintptr_t code_type;
};
// Null: there is none whose frames are known. Never changed once set.
extern std::atomic<const PythonInterpreter *> g_python_interpreter;

// The layout of Python 3.`minor`; null: it is not known.
const PythonLayout *find_python_layout(int minor);

struct PythonFrame {
  uintptr_t code;
  uint64_t position;  // of the instruction, bytes
  uintptr_t file, name, lines;
  int32_t first_line;
};

constexpr size_t kMostPythonFrames = 12, kPythonCodeBytes = 208;

// Memory of a thread; too large for its stack.
struct PythonRoom {
  MemoryWindow<2048> frames;
  MemoryWindow<512> objects;
  PythonFrame found[kMostPythonFrames];
  char codes[kMostPythonFrames][kPythonCodeBytes];
};

// The innermost frames of the calling thread; returns how many are in room.found. 0: it is in no Python function.
size_t walk_python(const PythonInterpreter &python, int pid, PythonRoom &room);

// Appends "file:line (function)", with '?' for control characters. False, with nothing appended: it can't be read.
bool write_python_frame(Writer &out, const PythonInterpreter &python, const PythonFrame &frame, PythonRoom &room);

}  // namespace tailrace
