// Calls of the program's functions that have begun and not ended, of each thread, and the regions that they are
// (layers/native_functions.h says which functions).
//
//   begin_function_call   a place on the thread's list, a region
//   end_function_call     by function and the place that it was called from
//   leave_functions       a call that was left without its end: by longjmp, by an exception through code that doesn't tell
//                         of its end, by the end of the thread
//
// A call that was left is found by the stack, which grows down: where code runs that has its caller's frame above that of
// the call, the call is over. Every recorded call looks (Call, session/record.h), so that none has a region of such a call.
//
// Invariants:
// - What runs on another stack of the thread (a coroutine's, a signal handler's own) is no call here: their order is
//   another one.
// - A signal handler may begin and end calls anywhere in here.
// - At most kMostFunctionCalls of a thread are open; those beyond are counted.
// - A forked child only leaves its parent's.
//
// Rejected: a hook of longjmp, whose target libc encrypts; of __cxa_begin_catch, which covers one language.
#pragma once

#include "session/region.h"

namespace tailrace {

constexpr uint32_t kMostFunctionCalls = 512;
constexpr uint32_t kShortCalls = 1000;

// A function of the program. Never freed.
struct NativeFunction {
  uintptr_t address;
  uint32_t bytes;                      // of its code; 0: unknown
  uint32_t object;                     // which one it was found in
  const RegionDefinition *definition;  // null: it is not chosen
  std::atomic<uint32_t> generation;    // in which its object was looked at (layers/native_functions.cc)
  std::atomic<uint32_t> running, short_calls;
  std::atomic<bool> is_left_out;
};

// Where a call began.
struct CallPlace {
  uintptr_t site;   // in its caller
  uintptr_t frame;  // the caller's end of the stack, of the code that tells of it
  uintptr_t pc;     // in that code: another function's where this one is inlined
};

extern uint64_t g_function_minimum_ticks;

// TAILRACE_FUNCTION_MINIMUM.
uint64_t function_minimum_ticks();

void begin_function_call(NativeFunction &function, const CallPlace &place);
// is_chosen(address): whether begin_function_call() would have been called for it.
void end_function_call(uintptr_t function, const CallPlace &place, bool (*is_chosen)(uintptr_t));
// The calling thread ends.
void release_function_calls();

// Calls that were not recorded, since the program began.
enum class Unrecorded { kTooDeep, kOtherStack, kTooMany, kCount };
void count_unrecorded_call(Unrecorded why);

}  // namespace tailrace
