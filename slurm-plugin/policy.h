// What a facility decides about all jobs: the words behind the plugin's path in plugstack.conf (docs/slurm.md).
// Invariant: a policy is complete, or `fault` says why nothing is traced.
#pragma once

#include "base/text.h"
#include "format/tags.h"

namespace tailrace::slurm {

struct Policy {
  enum class Jobs { kNone, kRequested, kAll };

  Jobs jobs = Jobs::kRequested;
  string_view names, partitions;  // patterns (fnmatch(3)), separated by commas; empty: all
  uint64_t sample = UINT64_MAX;   // of all jobs those whose hash is at most this
  bool choose_run = true;
  bool summary = true;
  string_view run;  // the template; empty: not configured
  string_view tags, library, journal_dir, block_age, propagate, detail;

  // The template for a job that requested tracing, or that is traced with all others: of whom did not ask, the working
  // directory gets no files of ours.
  string_view run_for(bool requested) const {
    if (!run.empty()) return run;
    return requested ? "tailrace-runs/{name}-{jobid}" : "{home}/tailrace-runs/{name}-{jobid}";
  }

  // Whether a job that requested nothing is traced where all are.
  bool selects(string_view name, string_view partition, uint32_t job) const;
};

// Reads the words. They must outlive the policy. On a fault returns false and writes a sentence that names the word and
// its valid values.
bool parse_policy(int count, char *const *words, Policy &out, Writer &fault);

// Whether the tags keep the rules and leave those alone that Slurm gives. On a fault writes a sentence.
bool check_tags(string_view tags, Writer &fault);

}  // namespace tailrace::slurm
