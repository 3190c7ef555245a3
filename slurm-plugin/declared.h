// A step's lines of the declared DAG (docs/declared-dag.md).
#pragma once

#include <cstdint>
#include <string>

#include "step_facts.h"

namespace tailrace::slurm {

// Whether a signal ended a command, or one of its own: a shell goes on, and ends with 128 and the signal's number.
bool tells_a_signal(int wait_status);

class DeclaredStep {
 public:
  // Writes that the step began at `now` (ns since the epoch): a workflow, a task and a try line. What can't be written
  // is left out.
  void begin(const StepFacts &facts, const std::string &run_dir, int64_t now);
  // Writes how it ended. `state`: the job's, by Slurm, or empty. A requeued job has ended a try.
  void end(int wait_status, const std::string &state, int64_t ended_ns);

 private:
  void append(const std::string &line);

  std::string path_, key_;
  int try_ = 0;
  int64_t began_ns_ = 0;
};

}  // namespace tailrace::slurm
