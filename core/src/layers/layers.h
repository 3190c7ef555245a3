// Libraries above libc whose calls are recorded too: HDF5, MPI-IO. They are not linked, there may be several of one
// kind in a process (wheels bring their own), and Python loads them out of everybody's sight. So:
//
//   a library is loaded -> its exports say what it is -> a Library -> the words that other objects take the addresses
//   of its functions from get a wrapper's address, which knows the Library by its own number
//
// What holds:
// - We export none of these symbols: who looks for MPI_Init finds one only where there is one.
// - A word is changed only if it holds, or when it is bound will hold, the address that the library exports under that
//   name. What another tool has put there stays.
// - The library's calls within itself are not seen, so a call is recorded once.
// - A process without such a library pays for the look at the exports of what it loads.
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
  char soname[128];  // a copy: the library may go away; empty where it has none
  void *real[kMaxSymbols];
  void *helpers[16];
};

// What is wrapped in a layer, and what the wrappers call besides.
struct LayerTable {
  const char *const *marks;  // a library of this kind exports all of them; ends with null
  const char *prefixes[2];   // with which the names of its functions begin
  const char *const *symbols;
  size_t symbol_count;
  const char *const *helpers;  // all of them must be there
  size_t helper_count;
  unsigned libraries;                    // at most so many at a time
  void *const (*wrappers)[kMaxSymbols];  // [library][symbol]
};
extern const LayerTable kHdf5Layer, kMpiIoLayer;

extern Library g_libraries[static_cast<size_t>(Layer::kCount)][kLibrariesPerLayer];

// Looks at what was loaded since the last look.
void find_layers();
// The calling thread is about to load a library, and has done so by the time of its next look.
void expect_layers();
extern __thread uint32_t t_layers_expected;
extern std::atomic<uint32_t> g_loads, g_loads_scanned;
// Whether a library may have been loaded since the last look, by whichever thread.
inline bool layers_expected() {
  return t_layers_expected ||
         g_loads.load(std::memory_order_relaxed) != g_loads_scanned.load(std::memory_order_relaxed);
}
// The wrapper of a library's function; null for any other address.
void *layer_wrapper_for(void *address);

// layers/layer_names.cc. The file of that name as a library opened it just now; later, by the key alone, what it was
// then. The key stands for how the library calls the file: by the name as given, or a handle.
void keep_layer_file(uint64_t key, const char *path, NamedFile &out);
bool layer_file_of(uint64_t key, NamedFile &out);
// What lies inside a file: a dataset.
void name_object(string_view text, NamedFile &out);

}  // namespace tailrace
