// tailrace-seal.so: sealing for the shell plugin, as a separate module: most jobs are not traced, and loading the
// deflate library would cost every shell 0.1 ms.
#pragma once

#include <stdint.h>

#include "job_sums.h"

namespace tailrace::flux {

struct JournalCounts {
  uint64_t failed = 0;         // unsealed journals: the run directory is full
  uint64_t failed_events = 0;  // in them
};

// Makes the node's sealer (format/node_sealer.h), for journals in `directory` that belong to the folder `trace`, and
// notes what is in that folder. Null: without memory.
using MakeSealer = void *(const char *directory, const char *trace);
// Starts its thread.
using StartSealer = void(void *sealer);
// Ends the thread; the sealer can still seal. Called twice it does nothing.
using StopSealer = void(void *sealer);
// Seals the dead processes' journals in `directory`. Returns 0, or -errno.
using SealJournals = int(void *sealer, const char *directory, JournalCounts *counts);
// Adds up the blocks that were written since the sealer was made and have a context with both tags, KEY=VALUE.
using SumBlocks = void(void *sealer, const char *job, const char *node, JobSums *sums);
using FreeSealer = void(void *sealer);

constexpr const char *kMakeSealer = "tailrace_make_sealer";
constexpr const char *kStartSealer = "tailrace_start_sealer";
constexpr const char *kStopSealer = "tailrace_stop_sealer";
constexpr const char *kSealJournals = "tailrace_seal_journals";
constexpr const char *kSumBlocks = "tailrace_sum_blocks";
constexpr const char *kFreeSealer = "tailrace_free_sealer";

}  // namespace tailrace::flux
