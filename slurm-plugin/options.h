// The options of srun, sbatch and salloc. Slurm checks them where the command is typed, and calls back again on the
// job's nodes; a step inherits those of its job, and its own replace them.
#pragma once

#include <limits.h>

#include "base/text.h"
#include "format/tags.h"
#include "spank_api.h"

namespace tailrace::slurm {

struct Options {
  bool traced = false;
  bool refused = false;
  char stage[3 * kMaxTagValueBytes + 1] = "";  // percent-encoded
  char tags[kMaxTagsBytes + 1] = "";           // percent-encoded, as given
  char run[PATH_MAX] = "";                     // as given
};

// Registers them with Slurm; what is given arrives in `into`, which must live as long as the plugin.
void register_options(spank_t spank, Options &into);

}  // namespace tailrace::slurm
