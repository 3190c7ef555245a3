// See layers/layers.h.
#include "layers/layers.h"

#include <dlfcn.h>

#include "base/sys.h"
#include "format/choices.h"
#include "linker/loaded.h"
#include "linker/real.h"
#include "session/libraries.h"

namespace tailrace {

Library g_libraries[static_cast<size_t>(Layer::kCount)][kLibrariesPerLayer];
__thread uint32_t t_layers_expected = 0;
std::atomic<uint32_t> g_loads, g_loads_scanned;

namespace {

constexpr unsigned kLayers = static_cast<unsigned>(Layer::kCount);
const LayerTable *const kTables[kLayers] = {&kHdf5Layer, &kMpiIoLayer};

// Written only by the scanning thread (g_scanner).
std::atomic<uint32_t> g_seen;   // objects at the front of the dynamic linker's list that are scanned
unsigned long long g_unloaded;  // objects unloaded by then: when more are, the list has changed
std::atomic<int> g_scanner;  // pid of the process whose thread scans; 0: none. In a forked child possibly the parent's
std::atomic<bool> g_any;     // any library of a layer is known

// False where another thread scans for long, or this thread does, interrupted by a signal handler.
bool begin_scan() {
  int self = sys::getpid();
  constexpr struct timespec kMoment = {0, 10'000};
  for (int tries = 0; tries < 1000; ++tries) {
    int owner = 0;
    if (g_scanner.compare_exchange_strong(owner, self)) return true;
    if (owner != self && g_scanner.compare_exchange_strong(owner, self)) return true;
    sys::call(SYS_nanosleep, sys::pointer(&kMoment));
  }
  return false;
}
void end_scan() { g_scanner.store(0, std::memory_order_release); }

struct Scan {
  uint32_t index = 0, from = 0;
  uint32_t layers = 0;    // those that are recorded, as bits
  bool found = false;     // a new library
  bool unloaded = false;  // objects were unloaded
  bool confirmed[kLayers][kLibrariesPerLayer] = {};
  // Symbols of GOT entries that are bound at their first call, and the global symbols of those names.
  bool unbound[kLayers][kMaxSymbols] = {};
  uintptr_t global[kLayers][kMaxSymbols] = {};
};

bool is_layer(const LoadedObject &object, const LayerTable &table) {
  for (const char *const *mark = table.marks; *mark; ++mark) {
    if (!object.find_export(*mark)) return false;
  }
  for (size_t i = 0; i < table.required_helpers; ++i) {
    if (!object.find_export(table.helpers[i])) return false;
  }
  return true;
}

void fill(Library &library, const LoadedObject &object, const LayerTable &table) {
  library.begin = object.begin();
  library.end = object.end();
  Writer soname(library.soname, sizeof library.soname - 1);
  soname << object.soname();
  soname.c_str();
  for (size_t i = 0; i < table.helper_count; ++i) {
    library.helpers[i] = reinterpret_cast<void *>(object.find_export(table.helpers[i]));
  }
  for (size_t i = 0; i < table.symbol_count; ++i) {
    library.real[i] = reinterpret_cast<void *>(object.find_export(table.symbols[i]));
  }
  library.known.store(true, std::memory_order_release);
}

// A library keeps its number while it is loaded, since GOT entries have the wrappers of that number.
void take_library(const LoadedObject &object, unsigned layer, Scan &scan) {
  Library *free = nullptr;
  for (Library &library : g_libraries[layer]) {
    if (library.known && library.begin == object.begin()) {
      scan.confirmed[layer][&library - g_libraries[layer]] = true;
      return fill(library, object, *kTables[layer]);
    }
    if (!library.known && !free && &library < g_libraries[layer] + kTables[layer]->libraries) free = &library;
  }
  // Of a library beyond the number of wrappers only the calls to libc are recorded.
  if (!free) return;
  fill(*free, object, *kTables[layer]);
  scan.confirmed[layer][free - g_libraries[layer]] = true;
  scan.found = true;
}

int find_libraries(dl_phdr_info *info, size_t, void *data) {
  auto &scan = *static_cast<Scan *>(data);
  if (scan.index == 0 && info->dlpi_subs != g_unloaded) {
    g_unloaded = info->dlpi_subs;
    scan.unloaded = true;
    scan.from = 0;
  }
  if (scan.index++ < scan.from) return 0;
  LoadedObject object;
  if (!object.read(*info)) return 0;
  for (unsigned i = 0; i < kLayers; ++i) {
    if ((scan.layers >> i & 1) && is_layer(object, *kTables[i])) take_library(object, i, scan);
  }
  return 0;
}

void forget_unloaded(const Scan &scan) {
  for (unsigned i = 0; i < kLayers; ++i) {
    for (unsigned k = 0; k < kLibrariesPerLayer; ++k) {
      if (!scan.confirmed[i][k]) g_libraries[i][k].known.store(false, std::memory_order_release);
    }
  }
}

bool any_library(unsigned layer) {
  for (const Library &library : g_libraries[layer]) {
    if (library.known) return true;
  }
  return false;
}

constexpr size_t kNoSymbol = SIZE_MAX;
size_t symbol_index(const LayerTable &table, const char *symbol) {
  const char *name = nullptr;
  for (const char *prefix : table.prefixes) {
    if (prefix && strncmp(symbol, prefix, strlen(prefix)) == 0) name = symbol + (prefix[0] == 'P');
  }
  for (size_t i = 0; name && i < table.symbol_count; ++i) {
    if (strcmp(name, table.symbols[i]) == 0) return i;
  }
  return kNoSymbol;
}

// The library whose function is at that address.
Library *owner_of(unsigned layer, size_t symbol, uintptr_t address) {
  for (Library &library : g_libraries[layer]) {
    if (library.known && address && reinterpret_cast<uintptr_t>(library.real[symbol]) == address) return &library;
  }
  return nullptr;
}

// The library that the dynamic linker will bind the object's import to: by the required version, else the global one,
// else the object's own. Null where these disagree or are missing: then the GOT entry is left alone.
Library *future_owner(const LoadedObject &object, unsigned layer, size_t symbol, const Import &import,
                      uintptr_t global) {
  string_view required = object.required_of(import.index);
  Library *global_owner = owner_of(layer, symbol, global), *own = nullptr, *only = nullptr;
  unsigned count = 0;
  for (Library &library : g_libraries[layer]) {
    if (!library.known || !library.real[symbol]) continue;
    string_view soname = library.soname;
    if (!required.empty() && soname == required) return &library;
    ++count;
    only = &library;
    object.each_needed([&](string_view needed) {
      if (!own && !soname.empty() && needed == soname) own = &library;
      return own != nullptr;
    });
  }
  if (!required.empty() || (global && !global_owner)) return nullptr;
  if (global_owner) return own && own != global_owner ? nullptr : global_owner;
  return own ? own : count == 1 ? only : nullptr;
}

void put_wrapper(unsigned layer, const Library *library, size_t symbol, uintptr_t *word) {
  void *wrapper = kTables[layer]->wrappers[library - g_libraries[layer]][symbol];
  LoadedObject::replace(word, reinterpret_cast<uintptr_t>(wrapper));
}

// Calls visit(object, layer, symbol, import, address in the GOT entry) for the imports of the layers' functions.
template <class Visit>
int each_layer_import(dl_phdr_info *info, Scan &scan, Visit visit) {
  if (scan.index++ < scan.from) return 0;
  LoadedObject object;
  if (!object.read(*info)) return 0;
  for (unsigned i = 0; i < kLayers; ++i) {
    const LayerTable &table = *kTables[i];
    bool imports = false;
    for (const char *prefix : table.prefixes) imports |= prefix && object.imports_prefix(prefix);
    if (!imports || !any_library(i)) continue;
    object.each_import([&](const Import &import) {
      size_t symbol = symbol_index(table, import.symbol);
      if (symbol != kNoSymbol) visit(object, i, symbol, import, __atomic_load_n(import.entry, __ATOMIC_ACQUIRE));
    });
  }
  return 0;
}

int wrap_bound(dl_phdr_info *info, size_t, void *data) {
  auto &scan = *static_cast<Scan *>(data);
  return each_layer_import(
      info, scan,
      [&](const LoadedObject &object, unsigned layer, size_t symbol, const Import &import, uintptr_t address) {
        if (Library *library = owner_of(layer, symbol, address)) {
          put_wrapper(layer, library, symbol, import.entry);
        } else if (import.may_be_lazy && object.holds(address)) {
          scan.unbound[layer][symbol] = true;
        }
      });
}

int wrap_unbound(dl_phdr_info *info, size_t, void *data) {
  auto &scan = *static_cast<Scan *>(data);
  return each_layer_import(
      info, scan,
      [&](const LoadedObject &object, unsigned layer, size_t symbol, const Import &import, uintptr_t address) {
        if (!import.may_be_lazy || !object.holds(address)) return;
        Library *library = future_owner(object, layer, symbol, import, scan.global[layer][symbol]);
        if (library) put_wrapper(layer, library, symbol, import.entry);
      });
}

// Not from within dl_iterate_phdr, since dlsym takes the dynamic linker's locks in another order.
bool find_global(Scan &scan) {
  bool any = false;
  for (unsigned i = 0; i < kLayers; ++i) {
    for (size_t k = 0; k < kTables[i]->symbol_count; ++k) {
      if (!scan.unbound[i][k]) continue;
      any = true;
      scan.global[i][k] = reinterpret_cast<uintptr_t>(real_dlsym(RTLD_DEFAULT, kTables[i]->symbols[k]));
    }
  }
  // The program's next dlerror() must not report this dlsym.
  if (any) dlerror();
  return any;
}

void scan_from(uint32_t from, uint32_t layers) {
  Scan scan;
  scan.layers = layers;
  scan.from = from;
  dl_iterate_phdr(find_libraries, &scan);
  uint32_t count = scan.index;
  if (scan.unloaded) forget_unloaded(scan);
  bool any = false;
  for (unsigned i = 0; i < kLayers; ++i) any |= any_library(i);
  if (any) {
    // An object loaded before the library may use it, as the host of a plugin does.
    if (scan.found || scan.unloaded) scan.from = 0;
    scan.index = 0;
    dl_iterate_phdr(wrap_bound, &scan);
    scan.index = 0;
    if (find_global(scan)) dl_iterate_phdr(wrap_unbound, &scan);
  }
  g_any.store(any, std::memory_order_release);
  g_seen.store(count, std::memory_order_relaxed);
}

}  // namespace

void expect_layers() {
  if (g_session.state.load(std::memory_order_relaxed) != State::kOn) return;
  // A library that another thread is loading is not relocated yet when this one scans it, so that thread scans it
  // again.
  uint32_t seen = g_seen.load(std::memory_order_relaxed) + 1;
  if (!t_layers_expected || seen < t_layers_expected) t_layers_expected = seen;
  g_loads.fetch_add(1, std::memory_order_relaxed);
}

void find_layers() {
  uint32_t expected = t_layers_expected;
  t_layers_expected = 0;
  g_loads_scanned.store(g_loads.load(std::memory_order_relaxed), std::memory_order_relaxed);
  uint32_t layers = 0;
  if (!enter()) return;
  parse_layers(g_session.environment[Setting::TAILRACE_LAYERS], layers);
  layers &= kLayersOfAll;
  if (!layers) return;
  if (!linker_answers() || !begin_scan()) {
    t_layers_expected = expected;
    return;
  }
  uint32_t seen = g_seen.load(std::memory_order_relaxed);
  scan_from(expected && expected - 1 < seen ? expected - 1 : seen, layers);
  end_scan();
}

void *layer_wrapper_for(void *address) {
  if (!address || !g_any.load(std::memory_order_acquire)) return nullptr;
  for (unsigned i = 0; i < kLayers; ++i) {
    for (Library &library : g_libraries[i]) {
      if (!library.known.load(std::memory_order_acquire)) continue;
      auto at = reinterpret_cast<uintptr_t>(address);
      if (at < library.begin || at >= library.end) continue;
      for (size_t k = 0; k < kTables[i]->symbol_count; ++k) {
        if (library.real[k] == address) return kTables[i]->wrappers[&library - g_libraries[i]][k];
      }
    }
  }
  return nullptr;
}

}  // namespace tailrace
