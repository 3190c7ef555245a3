// A traced job as its shell knows it: the event of the jobtap plugin, the run directory, and the tags and variables of
// its tasks (tailrace-shell(7), "TAGS").
//
// Invariant: `event` is null, or checked and complete after prepare_job(). Next: task_environment.cc for a task,
// nested.h for a job that is a Flux instance.
#pragma once

#include <flux/core.h>
#include <flux/shell.h>

#include "json.h"

namespace tailrace::flux {

struct JobContext {
  Json event;  // the context of the job's event; null: not traced
  Json jobspec;
  flux_jobid_t id = 0;
  bool is_asked_for = false;                         // the user requests tracing of this job, or of one around it
  bool alone = false;                                // the job manager lacks tailrace-jobtap.so
  bool nested = false;                               // the job is a Flux instance
  CString flux_path;                                 // FLUX_JOB_ID_PATH
  CString path;                                      // the ids of the enclosing jobs and of this one
  CString run;                                       // the run directory, links resolved
  CString tags;                                      // the job's tags, canonical
  CString untraced;                                  // TAILRACE_UNTRACED: the flux commands
  CString modprobe, jobtap, shell_plugins, starter;  // paths of the parts for an inner instance
  char clock[96] = "";                               // TAILRACE_CLOCK of this node
  char journal_device[128] = "";                     // TAILRACE_JOURNAL_DEVICE of this node
};

// Checks the event, completes the tags, creates the run directory. False with a sentence in `fault` when the job can't
// be traced; `warning` gets a sentence about what is missing from the run all the same.
bool prepare_job(flux_shell_t *shell, JobContext &job, Writer &fault, Writer &warning);

// TAILRACE_JOURNAL_DIR of the tasks: the job's own, the event's, or the default.
string_view chosen_journal_directory(flux_shell_t *shell, const JobContext &job);
string_view default_journal_directory();

// The job's tags with those of one task.
CString task_tags(const JobContext &job, int rank, int localid, int nodeid);

// The variables of a traced process as strings NAME=VALUE. The user's own settings of journals are kept.
Json task_variables(const JobContext &job, const char *tags, const flux_cmd_t *cmd);

void set_variables(flux_cmd_t *cmd, const json_t *list);

// kInnerVariable for the brokers: the configuration of the inner instance's plugins, with the same run, and tags that
// lead back to this job.
void configure_inner_instance(const JobContext &job, flux_cmd_t *cmd);

// The same for a task that is no instance, but may start one (`flux start` in a script): the task does not see it, and
// only the programs in TAILRACE_UNTRACED, which are Flux's, get it.
void configure_started_instances(const JobContext &job, flux_cmd_t *cmd);

}  // namespace tailrace::flux
