// The ids of HDF5 objects without a name, for layers/hdf5.cc: objects that were opened by a reference or an address, or
// created without a name, and those opened below them; and datasets that are written before they get a name (h5py:
// file["name"] = array).
//
// Invariants:
// - No locks, and memory of a fixed size.
// - A collision of two ids costs the name of one of them or a search by the library, and nothing else.
#pragma once

#include <stdint.h>

namespace tailrace {

// The key of an id in the library with that number (layers/layers.h).
constexpr uint64_t id_key(unsigned library, int64_t id) { return (static_cast<uint64_t>(id) << 2 | library) + 2; }

bool is_nameless(uint64_t key);
void add_nameless(uint64_t key);
void remove_nameless(uint64_t key);

// To be called after a dataset without a name was created, and after it was written (bytes may be kUnknownBytes).
void add_unlinked(uint64_t key);
void note_written(uint64_t key, int64_t bytes);
// To be called after it was linked: the bytes written until then. False for other datasets, or if nothing was written.
bool take_unlinked(uint64_t key, int64_t &bytes);

}  // namespace tailrace
