// The setting TAILRACE_LAYERS: which layers' calls are recorded.
#pragma once

#include "base/text.h"

namespace tailrace {

// Those of enum Layer (layers/layers.h) in its order; then GPU activity (layers/cupti.h), in builds that have it.
#ifdef TAILRACE_CUPTI
constexpr string_view kLayerNames[] = {"hdf5", "mpiio", "cupti"};
#else
constexpr string_view kLayerNames[] = {"hdf5", "mpiio"};
#endif
constexpr uint32_t kLayersOfAll = 3, kCuptiLayer = 4;

// "all", "none", or names separated by commas, as bits. False, and those of "all", where a name is unknown. GPU activity is
// only chosen by its name: a process can have one user of CUPTI, and that may be the program.
bool parse_layers(string_view text, uint32_t &out);

}  // namespace tailrace
