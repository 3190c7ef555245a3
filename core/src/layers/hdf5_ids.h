// Ids of HDF5's objects that have no name, for layers/hdf5.cc: what was opened by a reference or an address, or made
// without a name, and what was opened below such; and the datasets that are written before they get a name (h5py:
// file["name"] = array).
//
// What holds: no lock, memory of a fixed size. A place that is taken by another id costs that one's name or, the other
// way round, a search by the library, and nothing else.
#pragma once

#include <stdint.h>

namespace tailrace {

// An id of the library of that number (layers/layers.h).
constexpr uint64_t id_key(unsigned library, int64_t id) { return (static_cast<uint64_t>(id) << 2 | library) + 2; }

bool is_nameless(uint64_t key);
void add_nameless(uint64_t key);
void remove_nameless(uint64_t key);

// A dataset without a name was made, written (bytes may be kUnknownBytes), and has got one.
void add_unlinked(uint64_t key);
void note_written(uint64_t key, int64_t bytes);
// What was written until then; false where there was no such dataset, or nothing was written.
bool take_unlinked(uint64_t key, int64_t &bytes);

}  // namespace tailrace
