// tailrace-seal.so: sealing for the shell plugin, in a module of its own. Most jobs leave nothing to seal, and the
// deflate library would cost every shell 0.1 ms to load.
#pragma once

#include <stdint.h>

namespace tailrace::flux {

struct JournalCounts {
  uint64_t failed = 0;         // journals that stay: the run directory is full
  uint64_t failed_events = 0;  // in them
};

// Seals the dead processes' journals in `directory` that belong to the folder `trace`. Returns 0, or -errno.
using SealJournals = int(const char *directory, const char *trace, JournalCounts *counts);
constexpr const char *kSealJournals = "tailrace_seal_journals";

}  // namespace tailrace::flux
