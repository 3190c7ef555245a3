// tailrace-seal.so: sealing for the shell plugin, as a separate module: most jobs leave nothing to seal, and loading
// the deflate library would cost every shell 0.1 ms.
#pragma once

#include <stdint.h>

namespace tailrace::flux {

struct JournalCounts {
  uint64_t failed = 0;         // unsealed journals: the run directory is full
  uint64_t failed_events = 0;  // in them
};

// Seals the dead processes' journals in `directory` that belong to the folder `trace`. Returns 0, or -errno.
using SealJournals = int(const char *directory, const char *trace, JournalCounts *counts);
constexpr const char *kSealJournals = "tailrace_seal_journals";

}  // namespace tailrace::flux
