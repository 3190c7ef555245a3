// The process beside a step that does what is done in the user's name: it makes the run directory, seals, declares and
// sums up (step.cc). slurmstepd runs as root, so that it does nothing of that itself.
//
// Invariants: the process has the user's rights, and no others, before it executes its program; it lives in a session
// of its own and outlives a slurmstepd that is killed; no answer of it is waited for longer than the time given.
//
// It is no child of slurmstepd, since some process trackers kill that tree at a step's end, before slurm_spank_exit.
// Rejected: to work in slurm_spank_user_init, where the real user is still root and threads of slurmstepd run; a fork
// without exec.
#pragma once

#include "base/text.h"

namespace tailrace::slurm {

class StepProcess {
 public:
  StepProcess() = default;
  ~StepProcess();
  StepProcess(const StepProcess &) = delete;
  StepProcess &operator=(const StepProcess &) = delete;

  // Starts `program` with these words and this environment, where the effective rights are the user's. Returns 0, or an
  // errno.
  int start(const char *program, char *const *words, char *const *environment);
  bool runs() const { return fd_ >= 0; }
  // Sends a line that has no answer; also from a child of this process.
  void tell(string_view line);
  // Sends a line, where there is one, and waits for the answer: records that end with a zero each, then an empty one.
  // Their bytes are at `answer` until the next call. False: there was none in time, and the process is given up.
  bool ask(string_view line, int timeout_ms, string_view &answer);
  // Tells it that the step is over, and waits until it has ended.
  bool finish(int timeout_ms);

 private:
  void give_up();

  int fd_ = -1;
  char answer_[64 * 1024];
};

}  // namespace tailrace::slurm
