// Run directories: made or opened for a run. Nobody but the user may replace what is in one.
#pragma once

#include <string>

#include "description.h"

namespace tailrace::launcher {

// Creates the run directory `path`, or opens it for a further run, and describes this run in its run.json. Returns the
// absolute path with links resolved. Throws Fault: kUsage when it can't be created or written, or has something other
// than a run; kRun when its run.json can't be extended.
std::string open_run_directory(const std::string &path, const Describing &run);
// The same for one of many launchers that share a run, as the steps of a batch job do: a run that is there gets no
// description but of a host that it does not have yet.
std::string join_run_directory(const std::string &path, const Describing &run);
// Whether it has a run.json or a trace folder.
bool is_run_directory(const std::string &directory);
// Throws Fault (kUsage) where the folder of runs that nobody named is another user's, who could replace a run at any
// time.
void check_runs_folder(const std::string &parent);
// An unused path: <parent>/<local time>-<program>, with a number appended if needed. Throws as check_runs_folder.
std::string default_run_directory(const std::string &program, const std::string &parent = "tailrace-runs");

}  // namespace tailrace::launcher
