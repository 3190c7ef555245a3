// The manifest of a run's trace files (docs/trace-format.md, "The manifest"), by which a removed one is missed.
//
// A node's sealers add their files themselves (core/src/format/node_file.cc); here are those of processes that sealed
// for themselves. Invariants: lines are only appended, each in one write; a node has a file of its own, so no lock is
// needed.
//
// Rejected: that each sealer lists the files of processes: a thousand job shells on a node would write a thousand
// lists.
#pragma once

#include <string>

#include "summary.h"

namespace tailrace::launcher {

// Adds the files of processes among `trace_files` that no line names yet; what can't be written is left out.
void add_to_manifest(const std::string &run_dir, const Sizes &trace_files);
void remove_manifest(const std::string &run_dir);

}  // namespace tailrace::launcher
