// Which jobs are traced, and how: the configuration of the jobtap plugin (tailrace-jobtap(7), "CONFIGURATION") and the
// decision about one job. Invariant: a policy is complete, or is not created; it never changes.
#pragma once

#include <stdint.h>

#include "json.h"
#include "request.h"

namespace tailrace::flux {

// The event in a job's eventlog with which the jobtap plugin informs the shell plugin (tailrace-jobtap(7), "EVENTS").
constexpr const char *kEventName = "tailrace.trace";
constexpr int kEventVersion = 1;

// The run directory where none is configured: of a job that requests tracing, and of one that is traced with all
// others.
constexpr const char *kRunBesideJob = "tailrace-runs/{{id.f58plain}}";
constexpr const char *kRunOfUser = "{home}/tailrace-runs/{{id.f58plain}}";

// Keys of the event that become settings of the core in a task. The job's own setting takes precedence.
struct ForwardedSetting {
  const char *key;
  const char *variable;
};
constexpr ForwardedSetting kForwardedSettings[] = {
    {"journal-dir", "TAILRACE_JOURNAL_DIR"},
    {"block-age", "TAILRACE_BLOCK_AGE"},
    {"propagate", "TAILRACE_PROPAGATE"},
    {"detail", "TAILRACE_DETAIL"},
};

// Whether `word` is a valid TAILRACE_PROPAGATE.
bool is_propagation(string_view word);

struct Job {
  uint64_t id = 0;
  int64_t userid = -1;
  int64_t owner = -1;  // of the instance
  const json_t *jobspec = nullptr;
};

enum class Verdict {
  kLeave,   // not traced
  kTrace,   // `event` is the context of the event to post
  kReject,  // the job's request breaks a rule; `fault` names it
};

class Policy {
 public:
  // The keys of `load` (from flux jobtap load, or the plugin's conf in [[job-manager.plugins]]) override those of
  // `table`
  // ([tailrace]); each may be null. `library` is the preload path unless one is configured. On a fault returns false,
  // keeps `out`, and writes a sentence that names the key and its valid values.
  static bool parse(const json_t *table, const json_t *load, string_view library, Policy &out, Writer &fault);

  Verdict judge(const Job &job, Json &event, Writer &fault) const;

  // The effective settings, for `flux jobtap query`.
  const json_t *settings() const { return settings_.get(); }
  bool posts_memo() const { return json_is_true(member(settings_.get(), "memo")); }

 private:
  enum class Jobs { kNone, kRequested, kAll };

  bool selects(const Job &job) const;
  bool read_jobs(Writer &fault);
  Json make_event(const Job &job, const Request &request) const;
  const char *text(const char *key) const { return json_string_value(member(settings_.get(), key)); }

  Json settings_;  // every key of the table, checked
  Jobs jobs_ = Jobs::kNone;
};

}  // namespace tailrace::flux
