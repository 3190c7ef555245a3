// Call stacks of I/O calls (TAILRACE_STACKS, docs/functions.md): where in the program a call was made.
//
//   commit() ─► take_stack()      addresses by linker/unwind.h, Python's functions by session/python_frames.h
//                  │              a hash of them: the stack's number, in a record right before the call's
//                  └► define_stack()   once an epoch: its frames as text, a name record
//
// Invariants:
// - Off, it costs a load and a branch.
// - Signals are blocked while a stack is taken, since its memory is the thread's.
// - None is taken where names are hashed: frames have names of files and functions.
//
// Frames are addresses: line tables are large, so the analyzer looks them up (analyzer/store/callers.py), by the build
// ID. A call with a stack is no part of totals. Rejected: an event of its own, which would be in counts and sums.
#pragma once

#include "session/session.h"

namespace tailrace {

struct StackSampling {
  bool on;
  uint64_t slower_than_ticks;  // UINT64_MAX: for no call
  uint64_t each;               // one of so many calls of a thread; 0: none
};
extern StackSampling g_stacks;

// By the settings. Where the dynamic linker may be called.
void begin_stacks();

// The number of the stack of a call that lasted from t0 to t1, whose frames stay in the thread's memory; 0: it gets
// none.
uint64_t take_stack(Thread *t, Fn fn, uint64_t t0, uint64_t t1);
// Writes the frames of the stack that was taken last as text, one a line.
void write_frames(Thread *t, Writer &out);

}  // namespace tailrace
