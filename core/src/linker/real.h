// The functions behind the hooks. REAL(read)(fd, buf, n) calls the one that the program would have called without us.
//
// Invariants: an address is found at its first use (constructors of other libraries call hooks before ours has run), as
// RTLD_NEXT finds it, so that other preloaded tools keep their place, and in libc itself where nothing comes next
// (attached, not preloaded).
#pragma once

#include <atomic>

#include "format/functions.h"

#define TAILRACE_HOOK extern "C" __attribute__((visibility("default")))

namespace tailrace {

extern std::atomic<void *> g_real[kFunctionCount];

// Ends the process with a message when there is no such function, since the program's call could only be dropped.
void *resolve_real(Fn f);
// The same, but null.
void *find_real(Fn f);
// The same for a function of another library that perhaps only the calling code reaches: a plugin's own.
void *find_real_for(Fn f, void *caller);
// The C library's dlsym; the name is that of a hook here. Takes the dynamic linker's lock.
using DlsymFunction = void *(void *, const char *);
DlsymFunction *libc_dlsym();
inline void *real_dlsym(void *handle, const char *symbol) { return libc_dlsym()(handle, symbol); }

inline void *real_address(Fn f) {
  void *p = g_real[static_cast<size_t>(f)].load(std::memory_order_relaxed);
  return __builtin_expect(p != nullptr, 1) ? p : resolve_real(f);
}

// Whether the program's calls of `f` go to another function than the C library's. Its parameters may be others, too.
bool is_not_libcs(Fn f);

// The wrapper of each hook, in the order of hooks.def: hook_function(i) is the function of kWrappers[i].
extern void *const kWrappers[];
extern const size_t kWrapperCount;

}  // namespace tailrace

#define REAL(symbol) reinterpret_cast<decltype(&::symbol)>(::tailrace::real_address(::tailrace::Fn::f_##symbol))
