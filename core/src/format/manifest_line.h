// Lines of a run's manifest (docs/trace-format.md, "The manifest"), by which a trace file that is gone is missed.
#pragma once

#include "base/text.h"

namespace tailrace {

constexpr uint64_t kBlocksUnknown = UINT64_MAX;

// Writes the line of a trace file, with its newline; `blocks`: how many it has.
void write_manifest_line(Writer &out, string_view name, uint64_t blocks = kBlocksUnknown);
// Writes the line that says when the host's journals were removed while processes ran.
void write_removal_line(Writer &out, uint64_t ns);

}  // namespace tailrace
