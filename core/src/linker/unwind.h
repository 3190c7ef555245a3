// The return addresses on a thread's own stack, taken in a hook.
//
//   address -> find_module -> .eh_frame_hdr (a sorted table) -> FDE -> where the frame's caller is: a rule
//   rule    -> the caller's stack pointer, frame pointer and return address                    -> next frame
//
// An address of which .eh_frame says nothing (a program without it, code that was made at run time) is tried by its
// frame pointer; the return address found so must lie in a loaded object, behind an instruction that calls.
//
// Invariants: no allocation, no lock, some hundred bytes of stack; memory is read by the kernel's copy, so that a
// damaged stack ends the walk and nothing else. Rules follow the three registers that nearly all frames need (stack and
// frame pointer, return address); another one ends the walk, as the frame of a signal handler does.
//
// It takes 1 us a stack. Rejected: _Unwind_Backtrace, some KiB of stack, and abort() on tables that it does not expect;
// backtrace(3), which loads libgcc_s and allocates; libunwind, one more library with locks and a cache; frame pointers
// alone, which end in libc; the bounds of the thread's stack, which coroutines and signal stacks are outside of; a
// handler of SIGSEGV, which is the program's.
#pragma once

#include "base/checked_memory.h"
#include "linker/modules.h"

namespace tailrace {

struct Registers {
  uintptr_t pc, sp, fp;
};

struct NativeFrame {
  uintptr_t address;  // the one that its callee returns to
  uintptr_t module_begin;
  uintptr_t frame_header;
};

// How the caller of a place in a function is found. Offsets are from the canonical frame address (CFA).
struct UnwindRule {
  uintptr_t address;  // it is the rule of
  uintptr_t module_begin, frame_header;
  int64_t cfa_offset;
  int32_t return_offset, fp_offset;
  enum Base : uint8_t { kNoTable, kStackPointer, kFramePointer, kMemoryAtFramePointer, kEnd } base;
  bool fp_saved;
};

constexpr size_t kMostNativeFrames = 48;
constexpr size_t kUnwindRules = 512, kRuleWays = 4;

// Memory of a thread; too large for its stack.
struct UnwindRoom {
  MemoryWindow<6144> stack;
  MemoryWindow<512> tables;
  UnwindRule rules[kUnwindRules];  // by address, in one of kRuleWays places
  uint32_t replaced;
  NativeFrame frames[kMostNativeFrames];
};

// The callers of the place at `from`, the innermost first, at most `most`, without those in the object that begins at
// `without`. Returns how many are in room.frames.
size_t unwind(const Registers &from, uintptr_t without, int pid, size_t most, UnwindRoom &room);

#if defined(__x86_64__)
#define TAILRACE_REGISTERS_HERE(r) \
  __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=r"((r).pc), "=r"((r).sp), "=r"((r).fp))
#else
#define TAILRACE_REGISTERS_HERE(r) \
  __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29" : "=r"((r).pc), "=r"((r).sp), "=r"((r).fp))
#endif

}  // namespace tailrace
