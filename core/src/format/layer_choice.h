// The setting TAILRACE_LAYERS: which layers' calls are recorded.
#pragma once

#include "base/text.h"

namespace tailrace {

// In the order of enum Layer (layers/layers.h).
constexpr string_view kLayerNames[] = {"hdf5", "mpiio"};

// "all", "none", or names separated by commas, as bits. False, and all of them, where a name is unknown.
bool parse_layers(string_view text, uint32_t &out);

}  // namespace tailrace
