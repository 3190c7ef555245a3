// See linker/lookup.h.
//
// What holds: the objects are noted at the first lookup, which is one of the first things that this library does, so
// before the program can load or unload any. What a process began with is never unloaded. Nothing is allocated or
// locked.
#include "linker/lookup.h"

#include <link.h>

#include <atomic>

#include "linker/loaded.h"

namespace tailrace {
namespace {

constexpr size_t kMostObjects = 256;  // behind them it is dlsym's

Exports g_libc_exports;
Exports g_next[kMostObjects];
size_t g_next_count;
enum class Noted { kNone, kNow, kYes };
std::atomic<Noted> g_noted;

// In the order of the search, which for these objects is that of the list.
void note_objects() {
  bool behind = false;
  for (const link_map *m = _r_debug.r_map; m; m = m->l_next) {
    Exports exports;
    if (m->l_ld == _DYNAMIC) {
      behind = true;
    } else if (exports.read(m->l_addr, m->l_ld)) {
      bool is_libc = exports.soname() == "libc.so.6";
      if (is_libc) g_libc_exports = exports;
      // This library was loaded later, into a running program.
      if (is_libc && !behind) return;
      if (behind && g_next_count < kMostObjects) g_next[g_next_count++] = exports;
    }
  }
}

// False while another call, of a signal handler say, is at it.
bool are_noted() {
  Noted noted = g_noted.load(std::memory_order_acquire);
  if (noted == Noted::kNone && g_noted.compare_exchange_strong(noted, Noted::kNow)) {
    note_objects();
    g_noted.store(Noted::kYes, std::memory_order_release);
    return true;
  }
  return noted == Noted::kYes;
}

}  // namespace

uintptr_t find_next(const char *symbol) {
  if (!are_noted()) return 0;
  uintptr_t address = 0;
  for (size_t i = 0; i < g_next_count; ++i) {
    if (g_next[i].find(symbol, address) != Exports::Found::kNone) break;
  }
  return address;
}

uintptr_t find_in_libc(const char *symbol) {
  uintptr_t address = 0;
  if (are_noted()) g_libc_exports.find(symbol, address);
  return address;
}

}  // namespace tailrace
