// See linker/real.h.
//
// Invariants: what an allocator may call is found in the tables of loaded objects (linker/lookup.h), without the
// dynamic linker.
#include "linker/real.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/sys.h"
#include "linker/lookup.h"

// The linker's.
extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];

namespace tailrace {

std::atomic<void *> g_real[kFunctionCount];

namespace {

// By the linker's marks around this library. dladdr searches a library's whole symbol table: 60 us for libc.
bool is_ours(void *address) { return address >= __ehdr_start && address < _end; }

// Libraries of their own before glibc 2.34. A module that is loaded for itself brings its own along, where RTLD_NEXT
// does not look: that of Python's shared memory has librt.
constexpr const char *kPartsOfLibc[] = {"librt.so.1", "libpthread.so.0", "libutil.so.1", "libresolv.so.2"};

void *find_in_parts_of_libc(const char *symbol) {
  auto *open = reinterpret_cast<void *(*)(const char *, int)>(find_real(Fn::f_dlopen));
  for (const char *name : kPartsOfLibc) {
    void *handle = open ? open(name, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    void *p = handle ? real_dlsym(handle, symbol) : nullptr;
    // Left open, so that the library stays where its function is known to be.
    if (p && !is_ours(p)) return p;
    if (handle) dlclose(handle);
  }
  return nullptr;
}

}  // namespace

void *find_real(Fn f) {
  std::atomic<void *> &known = g_real[static_cast<size_t>(f)];
  if (void *p = known.load(std::memory_order_relaxed)) return p;
  // A string_view of the table ends with a zero: it was made from a literal.
  const char *symbol = function(f).symbol.data();
  void *p = find_next(symbol);
  // Not found: it belongs to a library that was loaded later, which is no allocator; or this library was loaded later,
  // and finds all functions while it is attached.
  if (!p) p = real_dlsym(RTLD_NEXT, symbol);
  if (!p || is_ours(p)) p = find_in_libc(symbol);
  known.store(p, std::memory_order_relaxed);
  return p;
}

bool is_not_libcs(Fn f) { return find_real(f) != find_in_libc(function(f).symbol.data()); }

void *find_real_for(Fn f, void *caller) {
  if (void *p = find_real(f)) return p;
  Dl_info calling;
  if (!dladdr(caller, &calling) || !calling.dli_fname) return nullptr;
  auto *open = reinterpret_cast<void *(*)(const char *, int)>(real_address(Fn::f_dlopen));
  void *handle = open(calling.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  // It is called, so it is there already, and stays for as long as its caller does.
  void *p = handle ? real_dlsym(handle, function(f).symbol.data()) : nullptr;
  if (handle) dlclose(handle);
  return p && !is_ours(p) ? p : nullptr;
}

void *resolve_real(Fn f) {
  if (void *p = find_real(f)) return p;
  if (void *p = find_in_parts_of_libc(function(f).symbol.data())) {
    g_real[static_cast<size_t>(f)].store(p, std::memory_order_relaxed);
    return p;
  }
  char message[256];
  Writer w(message, sizeof message);
  w << "tailrace: this C library has no " << function(f).symbol.view() << ", which the program calls\n";
  sys::write(2, w.view().data(), w.size());
  abort();
}

}  // namespace tailrace
