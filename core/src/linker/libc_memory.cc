// memcpy, memmove and memset of libc itself, for the core alone (they are hidden). In a program that is built with a
// sanitizer the runtime replaces these functions and checks the core's accesses: it misses the atomic operations that
// order them, reports races that do not exist, and waits for the core's own locks where it opens files for a report
// that was made under one. A core that is itself built with a sanitizer is checked.
#include "linker/libc_memory.h"

#include "linker/lookup.h"

#ifdef TAILRACE_SANITIZED

void tailrace::use_libc_memory() {}

#else

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace {

// Until the session starts.
void *copy_forwards(void *to, const void *from, size_t n) {
  auto *t = static_cast<volatile char *>(to);
  auto *f = static_cast<const volatile char *>(from);
  for (size_t i = 0; i < n; ++i) t[i] = f[i];
  return to;
}

void *copy(void *to, const void *from, size_t n) {
  if (reinterpret_cast<uintptr_t>(to) <= reinterpret_cast<uintptr_t>(from)) return copy_forwards(to, from, n);
  auto *t = static_cast<volatile char *>(to);
  auto *f = static_cast<const volatile char *>(from);
  for (size_t i = n; i > 0; --i) t[i - 1] = f[i - 1];
  return to;
}

void *fill(void *to, int value, size_t n) {
  auto *t = static_cast<volatile char *>(to);
  for (size_t i = 0; i < n; ++i) t[i] = static_cast<char>(value);
  return to;
}

using Copy = void *(*)(void *, const void *, size_t);
using Fill = void *(*)(void *, int, size_t);
std::atomic<Copy> g_memcpy{copy_forwards}, g_memmove{copy};
std::atomic<Fill> g_memset{fill};

template <class Function>
void use(std::atomic<Function> &function, const char *symbol) {
  void *address = tailrace::find_in_libc(symbol);
  if (address) function.store(reinterpret_cast<Function>(address), std::memory_order_relaxed);
}

}  // namespace

#define OWN extern "C" __attribute__((visibility("hidden"), used))

OWN void *memcpy(void *to, const void *from, size_t n) { return g_memcpy.load(std::memory_order_relaxed)(to, from, n); }
OWN void *memmove(void *to, const void *from, size_t n) {
  return g_memmove.load(std::memory_order_relaxed)(to, from, n);
}
OWN void *memset(void *to, int value, size_t n) { return g_memset.load(std::memory_order_relaxed)(to, value, n); }

void tailrace::use_libc_memory() {
  use(g_memcpy, "memcpy");
  use(g_memmove, "memmove");
  use(g_memset, "memset");
}

#endif
