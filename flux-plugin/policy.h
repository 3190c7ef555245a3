// Which jobs are traced, and how: the configuration of the jobtap plugin (tailrace-jobtap(7), "CONFIGURATION") and the
// decision about one job. A policy is made whole or not at all; it never changes afterwards.
#pragma once

#include <stdint.h>

#include "json.h"
#include "request.h"

namespace tailrace::flux {

// The event in a job's eventlog by which the jobtap plugin tells the shell plugin (tailrace-jobtap(7), "EVENTS").
constexpr const char *kEventName = "tailrace.trace";
constexpr int kEventVersion = 1;

// What a job's context says on behalf of the core, and the setting that a task gets it by. A job's own setting wins.
struct HandedOn {
  const char *key;
  const char *variable;
};
constexpr HandedOn kHandedOn[] = {
    {"journal-dir", "TAILRACE_JOURNAL_DIR"},
    {"block-age", "TAILRACE_BLOCK_AGE"},
    {"propagate", "TAILRACE_PROPAGATE"},
};

// What TAILRACE_PROPAGATE can be.
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
  kReject,  // the job asks for what breaks the rules, `fault` says which
};

class Policy {
 public:
  // The keys of `load` (from flux jobtap load, or the plugin's conf in [[job-manager.plugins]]) over those of `table`
  // ([tailrace]); each may be null. `library` is the preload path when neither names one. On a fault returns false,
  // leaves `out` as it is, and writes one sentence that names the key and what it may be.
  static bool parse(const json_t *table, const json_t *load, string_view library, Policy &out, Writer &fault);

  Verdict judge(const Job &job, Json &event, Writer &fault) const;

  // What is in force, for `flux jobtap query`.
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
