// Functions of compiled programs as regions, without a change of their source (TAILRACE_NATIVE_FUNCTIONS,
// docs/functions.md): gcc, g++, gfortran and clang with -finstrument-functions make each function call
// __cyg_profile_func_enter and _exit, which do nothing in libc and are ours where the core is preloaded or linked.
//
//   first call of a function   its name (linker/symbols.h, plain_names.h), whether it is chosen: kept by its address
//   each call                  a look-up; of a chosen one begin_function_call (session/function_calls.h)
//   a library is loaded        may be where another one was: objects are looked at again, by the functions' next calls
//
// Invariants:
// - With nothing chosen both cost a load and a branch.
// - A function without a name is OBJECT+0xADDRESS.
// - Of functions beyond kMostFunctions calls are counted, not recorded.
#pragma once

#include <atomic>

namespace tailrace {

extern std::atomic<bool> g_native_functions;

// By the settings. Where the dynamic linker may be called.
void begin_native_functions();
// Before and after a library is loaded.
void expect_native_functions();

}  // namespace tailrace
