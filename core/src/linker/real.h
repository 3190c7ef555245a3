// The functions behind the hooks. REAL(read)(fd, buf, n) calls the one that the program would have called without us.
//
// What holds: an address is looked up at its first use (constructors of other libraries call hooks before ours has
// run), with RTLD_NEXT, so that other preloaded tools keep their place, and from libc itself where nothing comes next
// (attached, not preloaded).
#pragma once

#include <atomic>

#include "format/functions.h"

#define TAILRACE_HOOK extern "C" __attribute__((visibility("default")))

namespace tailrace {

extern std::atomic<void *> g_real[kFunctionCount];

// Ends the process with a message when there is no such function: to go on would be to do nothing where the program
// asked for a call.
void *resolve_real(Fn f);
// The same, but null.
void *find_real(Fn f);
// The same for a function of another library, that perhaps only the calling code can reach: a plugin's own.
void *find_real_for(Fn f, void *caller);
// dlsym as the dynamic linker has it: ours is a hook.
void *real_dlsym(void *handle, const char *symbol);

inline void *real_address(Fn f) {
  void *p = g_real[static_cast<size_t>(f)].load(std::memory_order_relaxed);
  return __builtin_expect(p != nullptr, 1) ? p : resolve_real(f);
}

// The wrapper of the hook whose symbol is `name`, if `address` is what it wraps; else null.
void *wrapper_for(const char *name, void *address);

struct WrapperRow {
  const char *symbol;
  void *wrapper;
};
// One row a hook, in the table's order.
extern const WrapperRow kWrappers[];
extern const size_t kWrapperCount;

}  // namespace tailrace

#define REAL(symbol) reinterpret_cast<decltype(&::symbol)>(::tailrace::real_address(::tailrace::Fn::f_##symbol))
