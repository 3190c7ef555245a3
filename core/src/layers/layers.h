// Layers: libraries above libc whose calls are recorded too, HDF5 and MPI-IO. The core does not link them, a process
// may have several of one kind (wheels contain their own), and Python loads them with RTLD_LOCAL. So:
//
//   a library is loaded ─► its exports tell its kind ─► a Library with a number
//                                                          │
//   GOT entries of other objects for its functions ◄───────┘  get the address of a wrapper for that number
//
// Invariants:
// - The core exports none of these symbols: a look-up of MPI_Init succeeds only where there is an MPI.
// - A GOT entry is changed only if it has, or will have once it is bound, the address that the library exports under
// that
//   name. The entry of another tool stays.
// - The library's calls within itself are not wrapped, so a call is recorded once.
// - A process without such a library pays only for the scan of the exports of what it loads.
//
// Rejected: to export the functions. Every check for an HDF5 would find ours, and ours would call the first HDF5 there
// is, which is wrong for wheels that bring their own. And GOTCHA, which has one real function for each name. Objects
// from dlopen are scanned at the thread's next dlsym or dlopen, since the hook of dlopen leaves by a jump.
#pragma once

#include <atomic>

#include "session/record.h"

namespace tailrace {

enum class Layer : uint8_t { kHdf5, kMpiIo, kCount };
constexpr unsigned kLibrariesPerLayer = 4;
constexpr size_t kMaxSymbols = 80;

struct Library {
  std::atomic<bool> known;
  uintptr_t begin, end;
  char soname[128];  // a copy: the library may be unloaded; empty where it has none
  void *real[kMaxSymbols];
  void *helpers[32];  // null: the library lacks an optional one
};

// The functions of a layer that are wrapped, and those that the wrappers call.
struct LayerTable {
  const char *const *marks;  // a library of this kind exports all of them; ends with null
  const char *prefixes[2];   // of the names of its functions
  const char *const *symbols;
  size_t symbol_count;
  const char *const *helpers;
  size_t helper_count, required_helpers;  // those at the front
  unsigned libraries;                     // the limit at a time
  void *const (*wrappers)[kMaxSymbols];   // [library][symbol]
};
extern const LayerTable kHdf5Layer, kMpiIoLayer;

extern Library g_libraries[static_cast<size_t>(Layer::kCount)][kLibrariesPerLayer];

// Scans the objects that were loaded since the last scan.
void find_layers();
// To be called before the calling thread loads a library. Its next scan includes the library.
void expect_layers();
extern __thread uint32_t t_layers_expected;
extern std::atomic<uint32_t> g_loads, g_loads_scanned;
// Whether any thread may have loaded a library since the last scan.
inline bool layers_expected() {
  return t_layers_expected ||
         g_loads.load(std::memory_order_relaxed) != g_loads_scanned.load(std::memory_order_relaxed);
}
// The wrapper of a library's function; null for any other address.
void *layer_wrapper_for(void *address);

// layers/layer_names.cc. Keeps the file of that name, to be called after a library opened it, and returns it later by
// the key alone. The key is a hash of the library's name or handle of the file. `ranks`: of the communicator that
// opened it; 0: none.
void keep_layer_file(uint64_t key, const char *path, NamedFile &out, uint32_t ranks = 0);
bool layer_file_of(uint64_t key, NamedFile &out, uint32_t *ranks = nullptr);
// Names an object inside a file, such as a dataset.
void name_object(string_view text, NamedFile &out);

}  // namespace tailrace
