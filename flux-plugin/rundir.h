// The run directory as a job's shell makes it: on its node, as the job's user, mode 0700 (docs/trace-format.md,
// "run.json"; integrations/rundir.py does the same for launchers in Python).
#pragma once

#include "json.h"

namespace tailrace::flux {

struct RunDescription {
  const json_t *command;  // a list of strings
  const char *cwd;
  string_view tags;  // canonical
};

// Makes `path` (absolute) with its folders and has this host in its run.json. `real` gets the path with links resolved.
// On a fault returns false and writes one sentence: then nothing can be traced into it. A run.json that can't be
// written is no such fault: a trace is whole without, and the sentence is written all the same.
bool make_run_directory(const char *path, const RunDescription &description, CString &real, Writer &fault);

}  // namespace tailrace::flux
