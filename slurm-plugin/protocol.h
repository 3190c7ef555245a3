// What the plugin and the step's process agree on.
#pragma once

namespace tailrace::slurm {

// Variables that a traced job's script has, so that its steps and the jobs it submits find the run. Slurm hands on the
// environment; a job that is submitted without it (--export=NONE) has a run of its own.
constexpr const char *kRunVariable = "SLURM_TAILRACE_RUN";
constexpr const char *kAskedVariable = "SLURM_TAILRACE_ASKED";  // --trace-run of the job, as given
constexpr const char *kJobVariable = "SLURM_TAILRACE_JOB";      // the job's id; unset: a traced program has submitted
constexpr const char *kTaskVariable = "SLURM_TAILRACE_TASK";    // the script's task
constexpr const char *kTagsVariable = "SLURM_TAILRACE_TAGS";    // of the traced program
// PID:WAITS:NS:HOST of srun or sbatch.
constexpr const char *kSubmitterVariable = "SLURM_TAILRACE_SUBMITTER";

// The first byte of an answer.
constexpr char kTraced = 'T';    // then the settings of the tasks
constexpr char kUntraced = 'F';  // then the reason
constexpr char kSay = 'S';       // then a line for the user
constexpr char kNothing = 'N';
// The first byte of a line to the process.
constexpr char kBegun = 'B';  // the node's first task begins; then how often the job was requeued, node, ns. No answer
constexpr char kEnded = 'E';  // the last task has ended; then the wait status and when, ns

}  // namespace tailrace::slurm
