// `tailrace run`: makes the run directory, preloads the core, waits and seals meanwhile, sums up in one line.
//
// Invariants: signals sent to this process reach the command; its exit code becomes ours; a fault of the tracer
// (missing core, run directory removed) is a line on stderr and never keeps the command from running.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "description.h"
#include "summary.h"

namespace tailrace::launcher {

// What is there to run with: the Python package, or the executable alone.
struct Installation {
  std::string library;            // the core's, where it should be
  std::string python_version;     // empty: no Python has been started
  std::vector<int> ignored_here;  // as in Command
};

struct RunOptions {
  std::optional<std::string> output;
  std::string tags;    // canonical
  std::string detail;  // empty: by the environment
  bool quiet = false;
  std::vector<std::string> command;
  std::string unseen;  // as `detail`
  std::string follow;  // as `detail`: patterns, separated by colons
};

struct Ended {
  int code;
  std::optional<std::string> run_dir;  // where it was a run of its own
};
// Throws Fault before the command has begun.
Ended run(const RunOptions &options, const Installation &installation);

struct Traced {
  int code;
  Summary summary;
};
// Runs a command traced into `run_dir` (absolute, exists) with `tags` (canonical).
Traced run_traced(const std::vector<std::string> &command, const std::string &run_dir, const std::string &tags,
                  const Installation &installation);

}  // namespace tailrace::launcher
