// The run directory as a job's shell creates it: on its node, as the job's user, mode 0700. integrations/rundir.py is
// the same for launchers in Python; schemas/run.schema.json describes the run.json that both write.
// Not by the launcher's own writer, since that needs the C++ runtime: every job's shell loads the plugin, for 60 us.
#pragma once

#include "json.h"

namespace tailrace::flux {

struct RunDescription {
  const json_t *command;  // a list of strings
  const char *cwd;
  string_view tags;         // canonical
  string_view journal_dir;  // empty: the default
  const json_t *batch;      // the job, as run.json has it
};

// Creates `path` (absolute) with its folders and adds this host to its run.json. `real` gets the path with links
// resolved. A directory that exists is taken only if it is the user's and nobody else may write there. On a fault
// returns false and writes a sentence: nothing can be traced into it. A run.json that can't be written is only a
// `warning`: the trace is complete without it.
bool make_run_directory(const char *path, const RunDescription &description, CString &real, Writer &fault,
                        Writer &warning);

}  // namespace tailrace::flux
