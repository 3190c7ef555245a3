// See linker/lookup.h.
//
// Invariants:
// - The objects are noted at the first lookup, which is one of the first things that this library does, so before the
//   program can load or unload any. What a process began with is never unloaded.
// - Nothing is allocated with malloc or locked.
#include "linker/lookup.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include "linker/loaded.h"
#include "linker/real.h"

namespace tailrace {
namespace {

// In the order of the search, which for these objects is that of the list.
constexpr size_t kMostObjects = 1024;
Exports g_objects[kMostObjects];
size_t g_object_count;
Exports g_libc;
enum class Noted { kNone, kNow, kYes };
std::atomic<Noted> g_noted;

bool is_libc(const Exports &exports) { return exports.soname() && is_same_name(exports.soname(), "libc.so.6"); }

bool is_own(const link_map *m) { return m->l_ld == _DYNAMIC; }

// Calls visit(exports, comes_next) for the objects that have tables until it returns true. Behind libc, a library that
// was loaded into a running program finds itself: nothing comes next to it.
template <class Visit>
void each_object(Visit visit) {
  bool behind = false;
  for (const link_map *m = _r_debug.r_map; m; m = m->l_next) {
    Exports exports;
    if (is_own(m)) {
      behind = true;
    } else {
      bool is_found = exports.read(m->l_addr, m->l_ld) && visit(exports, behind);
      if (is_found || (is_libc(exports) && !behind)) return;
    }
  }
}

// False: there are too many.
bool note_objects() {
  size_t count = 0;
  each_object([&](const Exports &exports, bool comes_next) {
    if (is_libc(exports)) g_libc = exports;
    if (comes_next && count++ < kMostObjects) g_objects[count - 1] = exports;
    return false;
  });
  g_object_count = count;
  return count <= kMostObjects;
}

// False while another call has not finished noting them, one that a signal handler interrupted for example, and where
// there are too many.
bool are_noted() {
  Noted noted = g_noted.load(std::memory_order_acquire);
  if (noted == Noted::kNone && g_noted.compare_exchange_strong(noted, Noted::kNow)) {
    if (note_objects()) g_noted.store(Noted::kYes, std::memory_order_release);
    return g_noted.load(std::memory_order_relaxed) == Noted::kYes;
  }
  return noted == Noted::kYes;
}

// True where the object ends the search.
bool search(const Exports &exports, const char *symbol, uintptr_t &address) {
  Exports::Found found = exports.find(symbol, address);
  if (found == Exports::Found::kResolver) address = Exports::resolve(address);
  return found != Exports::Found::kNone;
}

}  // namespace

void *find_next(const char *symbol) {
  uintptr_t address = 0;
  if (are_noted()) {
    for (size_t i = 0; i < g_object_count && !search(g_objects[i], symbol, address);) ++i;
  } else {
    each_object(
        [&](const Exports &exports, bool comes_next) { return comes_next && search(exports, symbol, address); });
  }
  return reinterpret_cast<void *>(address);
}

void *find_in_libc(const char *symbol) {
  uintptr_t address = 0;
  if (are_noted()) {
    search(g_libc, symbol, address);
  } else {
    each_object(
        [&](const Exports &exports, bool) { return is_libc(exports) && (search(exports, symbol, address), true); });
  }
  return reinterpret_cast<void *>(address);
}

DlsymFunction *libc_dlsym() {
  static std::atomic<void *> known;
  void *p = known.load(std::memory_order_relaxed);
  if (p) return reinterpret_cast<DlsymFunction *>(p);
  p = find_in_libc("dlsym");
  // Before glibc 2.34 it is libdl's. dlvsym is not hooked. The versions: of x86_64, of aarch64.
  for (void *where : {RTLD_NEXT, RTLD_DEFAULT}) {
    for (const char *version : {"GLIBC_2.2.5", "GLIBC_2.17"}) {
      if (!p) p = dlvsym(where, "dlsym", version);
    }
  }
  known.store(p, std::memory_order_relaxed);
  return reinterpret_cast<DlsymFunction *>(p);
}

const char *library_path() {
  for (const link_map *m = _r_debug.r_map; m; m = m->l_next) {
    if (is_own(m)) return m->l_name && *m->l_name ? m->l_name : nullptr;
  }
  return nullptr;
}

}  // namespace tailrace
