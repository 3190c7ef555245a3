// tailrace-jobtap.so, a plugin of Flux's job manager: decides which jobs are traced and informs their shells by an
// event in the job's eventlog (tailrace-jobtap(7)). A jobtap plugin can't set a task's environment; tailrace-shell.so
// does.
//
// Invariants: it runs on rank 0 as the instance's owner, so it opens no file and starts no process. It keeps nothing
// about a job in memory, except for a restored job until its eventlog is read, and what the memos of a running job said.
// A job without a request is never rejected. flux-jobtap-plugins(7) describes the callbacks.
//   job.validate        rejects a job whose request breaks a rule
//   job.new             posts the event; called again for every active job when the plugin is loaded and when the job
//                       manager restarts
//   job.state.depend, job.state.run
//                       shows the stage, as an annotation
//   job.event.memo      adds up the parts that the job's shells post
//   job.state.cleanup   posts the stage, the result and these sums as a memo, or shows them as an annotation
// A memo of ours never comes before one of the job's own: by `flux job wait-event JOB memo` scripts wait until an
// instance in the job answers.
//   conf.update         the [tailrace] table; applied completely or not at all
//
// Why an event: shells use the jobspec as its user signed it, so no update of the plugin's reaches them. An event
// survives the plugin's removal and a restart of the job manager; a service of the plugin would be cheaper, and end
// with it. A restarted job manager has forgotten its events, so a restored job's eventlog is read before one is posted,
// 64 at a time. Rejected: no memo, since `flux jobs` would forget all traced jobs at a restart.
#include <errno.h>
#include <flux/core.h>
#include <flux/jobtap.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "policy.h"

namespace tailrace::flux {
namespace {

constexpr const char *kState = "tailrace";

struct Counts {
  json_int_t traced = 0;
  json_int_t rejected = 0;
};

// A restarted job manager does not know which events it posted before.
struct Restored {
  flux_plugin_t *p;
  flux_jobid_t id;
  Json event;
  flux_future_t *eventlog = nullptr;  // the pending look-up
  Restored *next = nullptr;
};

// The restored jobs whose eventlogs are still to be read, in order, a few at a time. Owned by the plugin, so that no
// look-up calls back after it is removed.
class RestoredJobs {
 public:
  RestoredJobs() = default;
  RestoredJobs(const RestoredJobs &) = delete;
  RestoredJobs &operator=(const RestoredJobs &) = delete;
  ~RestoredJobs() {
    while (first_) remove(first_);
  }
  size_t size() const { return size_; }

  void add(Restored *job) {
    (last_ ? last_->next : first_) = job;
    last_ = job;
    if (!unasked_) unasked_ = job;
    ++size_;
  }

  // The next job to look up; null when there is none, or enough are looked up already.
  Restored *take_next() {
    if (!unasked_ || asked_ == kAtOnce) return nullptr;
    ++asked_;
    Restored *job = unasked_;
    unasked_ = job->next;
    return job;
  }

  // A job that was taken, or any when all are removed.
  void remove(Restored *job) {
    Restored **at = &first_, *before = nullptr;
    while (*at != job) {
      before = *at;
      at = &before->next;
    }
    *at = job->next;
    if (last_ == job) last_ = before;
    --size_;
    if (asked_) --asked_;
    flux_future_destroy(job->eventlog);
    job->~Restored();
    free(job);
  }

 private:
  // Those that are looked up come first, so a search for one of them is short.
  static constexpr size_t kAtOnce = 64;
  Restored *first_ = nullptr, *last_ = nullptr, *unasked_ = nullptr;
  size_t size_ = 0, asked_ = 0;
};

struct State {
  Policy policy;
  Counts counts;
  RestoredJobs restored;
  char library[PATH_MAX] = "";
};

State *state_of(flux_plugin_t *p) { return static_cast<State *>(flux_plugin_aux_get(p, kState)); }

void destroy_state(void *state) {
  static_cast<State *>(state)->~State();
  free(state);
}

// The path of the libtailrace.so that was installed with this plugin.
void find_library(flux_plugin_t *p, State &state) {
  const char *path = flux_plugin_get_path(p);
  char own[PATH_MAX];
  if (!path || !realpath(path, own)) return;
  Writer w(state.library, sizeof state.library);
  string_view directory(own);
  w << slice(directory, 0, directory.rfind('/')) << "/" TAILRACE_LIBRARY_FROM_PLUGIN;
  char resolved[PATH_MAX];
  if (realpath(w.c_str(), resolved)) {
    w.truncate(0);
    w << resolved;
  }
  w.c_str();
}

bool read_job(flux_plugin_arg_t *args, Job &job, int *job_state) {
  json_t *jobspec = nullptr;
  json_int_t id, userid;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:I s:i s:I s:o}", "id", &id, "state", job_state, "userid",
                             &userid, "jobspec", &jobspec) < 0) {
    return false;
  }
  job.id = static_cast<uint64_t>(id);
  job.userid = userid;
  job.owner = geteuid();
  job.jobspec = jobspec;
  return true;
}

// The workflow of a job that names none is that of the job it depends on. Follows the first dependency on a job, as
// long as the job manager still has that job.
Json workflow_of_dependencies(flux_plugin_t *p, const json_t *jobspec) {
  constexpr int kMaxSteps = 16;
  flux_plugin_arg_t *current = nullptr;
  Json found;
  for (int step = 0; step < kMaxSteps && !found; ++step) {
    json_t *list = member(member(member(jobspec, "attributes"), "system"), "dependencies");
    flux_plugin_arg_t *next = nullptr;
    for (size_t i = 0; i < json_array_size(list) && !next; ++i) {
      json_t *dependency = json_array_get(list, i);
      flux_jobid_t id;
      if (starts_with(text_of(member(dependency, "scheme")), "after") && json_is_string(member(dependency, "value")) &&
          flux_job_id_parse(json_string_value(member(dependency, "value")), &id) == 0) {
        next = flux_jobtap_job_lookup(p, id);
      }
    }
    json_t *other = nullptr;
    if (!next || flux_plugin_arg_unpack(next, FLUX_PLUGIN_ARG_IN, "{s:o}", "jobspec", &other) < 0) {
      flux_plugin_arg_destroy(next);
      break;
    }
    Request request;
    char sentence[512];
    Writer ignored(sentence, sizeof sentence);
    if (read_request(other, false, request, ignored)) {
      found = Json::share(member(request.tags.get(), "workflow"));
    }
    flux_plugin_arg_destroy(current);
    current = next;
    jobspec = other;
  }
  flux_plugin_arg_destroy(current);
  return found;
}

Verdict judge(flux_plugin_t *p, const Job &job, Json &event, Writer &fault) {
  Verdict verdict = state_of(p)->policy.judge(job, event, fault);
  if (verdict != Verdict::kTrace) return verdict;
  json_t *tags = member(event.get(), "tags");
  if (!member(tags, "workflow")) {
    Json workflow = workflow_of_dependencies(p, job.jobspec);
    if (workflow) json_object_set_new(tags, "workflow", workflow.release());
  }
  return verdict;
}

void post(flux_plugin_t *p, flux_jobid_t id, json_t *event) {
  State &state = *state_of(p);
  if (flux_jobtap_event_post_pack(p, id, kEventName, "O", event) < 0) {
    flux_log_error(flux_jobtap_get_flux(p), "tailrace: a job is not traced: its event can't be posted");
    return;
  }
  // So that on_memo is called for it.
  if (state.policy.posts_memo()) flux_jobtap_job_subscribe(p, id);
  ++state.counts.traced;
}

bool has_event(const char *eventlog) {
  for (const char *line = eventlog; line && *line;) {
    const char *end = strchr(line, '\n');
    size_t n = end ? static_cast<size_t>(end - line) : strlen(line);
    if (string_view(line, n).find(kEventName) != string_view::npos) {
      Json entry(json_loadb(line, n, 0, nullptr));
      if (text_of(member(entry.get(), "name")) == kEventName) return true;
    }
    line = end ? end + 1 : nullptr;
  }
  return false;
}

void on_eventlog(flux_future_t *f, void *arg);

bool ask_for_eventlog(flux_plugin_t *p, Restored &job) {
  char key[128];
  return flux_job_kvs_key(key, sizeof key, job.id, "eventlog") >= 0 &&
         (job.eventlog = flux_kvs_lookup(flux_jobtap_get_flux(p), nullptr, 0, key)) &&
         flux_future_then(job.eventlog, -1., on_eventlog, &job) >= 0;
}

// Thousands of look-ups at once would hold up the job manager and the KVS when an instance starts.
void ask_for_more(flux_plugin_t *p) {
  RestoredJobs &jobs = state_of(p)->restored;
  while (Restored *next = jobs.take_next()) {
    if (ask_for_eventlog(p, *next)) continue;
    flux_log_error(flux_jobtap_get_flux(p), "tailrace: a job is not traced: its eventlog can't be read");
    jobs.remove(next);
  }
}

void on_eventlog(flux_future_t *f, void *arg) {
  auto *restored = static_cast<Restored *>(arg);
  flux_plugin_t *p = restored->p;
  const char *eventlog = nullptr;
  if (flux_kvs_lookup_get(f, &eventlog) < 0) {
    flux_log_error(flux_future_get_flux(f), "tailrace: a job is not traced: its eventlog can't be read");
  } else if (!has_event(eventlog)) {
    post(p, restored->id, restored->event.get());
  }
  state_of(p)->restored.remove(restored);
  ask_for_more(p);
}

void post_unless_posted_before(flux_plugin_t *p, flux_jobid_t id, Json &&event) {
  void *raw = calloc(1, sizeof(Restored));
  if (!raw) return;
  state_of(p)->restored.add(new (raw) Restored{p, id, static_cast<Json &&>(event)});
  ask_for_more(p);
}

bool was_posted(flux_plugin_t *p, const char *name) {
  return flux_jobtap_job_event_posted(p, FLUX_JOBTAP_CURRENT_JOB, name) == 1;
}

// Whether the job existed before this job manager started.
bool is_restored(flux_plugin_t *p, int job_state) {
  return job_state != FLUX_JOB_STATE_NEW && !was_posted(p, "submit") && !was_posted(p, "validate");
}

int on_validate(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  Job job;
  int job_state;
  Json event;
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  if (!read_job(args, job, &job_state) || judge(p, job, event, fault) != Verdict::kReject) return 0;
  ++state_of(p)->counts.rejected;
  return flux_jobtap_reject_job(p, args, "tailrace: %s", fault.c_str());
}

// `{user.trace...}` of `flux jobs`: as a memo would, and in no eventlog.
void annotate(flux_plugin_arg_t *args, json_t *trace) {
  flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:{s:{s:O}}}", "annotations", "user", "trace", trace);
}

Json with_stage(const Json &event) {
  Json trace(json_object());
  if (json_t *stage = member(member(event.get(), "tags"), "stage")) json_object_set(trace.get(), "stage", stage);
  return trace;
}

int on_new(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  Job job;
  int job_state;
  Json event;
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  constexpr int kTooLate = FLUX_JOB_STATE_RUN | FLUX_JOB_STATE_CLEANUP | FLUX_JOB_STATE_INACTIVE;
  if (!read_job(args, job, &job_state) || (job_state & kTooLate)) return 0;
  if (judge(p, job, event, fault) != Verdict::kTrace || was_posted(p, kEventName)) return 0;
  // Not yet shown: on_state does that.
  if (state_of(p)->policy.posts_memo() && asks_for_tracing(job.jobspec)) annotate(args, with_stage(event).get());
  if (is_restored(p, job_state)) {
    post_unless_posted_before(p, job.id, static_cast<Json &&>(event));
  } else {
    post(p, FLUX_JOBTAP_CURRENT_JOB, event.get());
  }
  return 0;
}

// What the memos of a running job said: the sums that its shells have posted, and whether the job has posted one itself,
// as an instance does when it answers.
constexpr const char *kMemos = "tailrace::memos";
constexpr const char *kSummed[] = {"events", "bytes", "read", "written", "lost"};
struct Memos {
  bool own = false;
  json_int_t parts = 0, shells = 0, values[sizeof kSummed / sizeof *kSummed] = {};
  Json run;
};

void destroy_memos(void *memos) {
  static_cast<Memos *>(memos)->~Memos();
  free(memos);
}

Memos *find_memos(flux_plugin_t *p) {
  return static_cast<Memos *>(flux_jobtap_job_aux_get(p, FLUX_JOBTAP_CURRENT_JOB, kMemos));
}

Memos *find_or_make_memos(flux_plugin_t *p) {
  if (Memos *memos = find_memos(p)) return memos;
  void *raw = calloc(1, sizeof(Memos));
  if (!raw) return nullptr;
  auto *memos = new (raw) Memos();
  if (flux_jobtap_job_aux_set(p, FLUX_JOBTAP_CURRENT_JOB, kMemos, memos, destroy_memos) == 0) return memos;
  destroy_memos(memos);
  return nullptr;
}

// Any user may post a memo to their own job: what is no number, or negative, counts nothing.
void add_parts(json_t *parts, Memos &memos) {
  constexpr json_int_t kMost = 1LL << 53;
  const char *node;
  json_t *part;
  json_object_foreach(parts, node, part) {
    ++memos.parts;
    memos.shells = json_integer_value(member(part, "shells"));
    for (size_t i = 0; i < sizeof kSummed / sizeof *kSummed; ++i) {
      json_int_t value = json_integer_value(member(part, kSummed[i]));
      if (value > 0 && value < kMost - memos.values[i]) memos.values[i] += value;
    }
  }
}

int on_memo(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  json_t *context = nullptr;
  Memos *memos = find_or_make_memos(p);
  if (!memos || flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:{s:o}}", "entry", "context", &context) < 0) {
    return 0;
  }
  json_t *trace = member(context, "trace");
  if (!trace || json_object_size(context) > 1) memos->own = true;
  if (json_t *run = member(trace, "run")) memos->run = Json::share(run);
  add_parts(member(trace, "parts"), *memos);
  return 0;
}

const char *result_name(flux_job_result_t result) {
  switch (result) {
    case FLUX_JOB_RESULT_COMPLETED: return "completed";
    case FLUX_JOB_RESULT_FAILED: return "failed";
    case FLUX_JOB_RESULT_CANCELED: return "canceled";
    case FLUX_JOB_RESULT_TIMEOUT: return "timeout";
  }
  return "unknown";
}

// A traced job's event, with the stage; null for another one. A job manager that was restarted does not know which
// events it posted.
bool read_traced_job(flux_plugin_t *p, flux_plugin_arg_t *args, Job &job, Json &event) {
  int job_state;
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  const Policy &policy = state_of(p)->policy;
  if (!policy.posts_memo() || !read_job(args, job, &job_state)) return false;
  bool posted = was_posted(p, kEventName);
  if (!posted && !is_restored(p, job_state)) return false;
  // After the event was posted, the policy may have become another one.
  return policy.judge(job, event, fault) == Verdict::kTrace || posted;
}

// When the job is submitted, else when it runs: what was said of a job that waits is forgotten at a restart, and what is
// said before job-list runs again is lost. Of a job that did not ask nothing is said before its end, since the alloc
// event repeats all annotations.
int on_state(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  static char shown[] = "tailrace::shown";
  Job job;
  Json event;
  if (flux_jobtap_job_aux_get(p, FLUX_JOBTAP_CURRENT_JOB, shown) || !read_traced_job(p, args, job, event) ||
      !asks_for_tracing(job.jobspec)) {
    return 0;
  }
  annotate(args, with_stage(event).get());
  flux_jobtap_job_aux_set(p, FLUX_JOBTAP_CURRENT_JOB, shown, shown, nullptr);
  return 0;
}

void add_sums(const Memos &memos, json_t *trace) {
  json_object_set(trace, "run", memos.run.get());
  json_object_set_new(trace, "parts", json_null());
  // Less would look like all: after a restart, or where a shell was killed, parts are missing.
  if (!memos.shells || memos.parts != memos.shells) return;
  for (size_t i = 0; i < sizeof kSummed / sizeof *kSummed; ++i) {
    json_object_set_new(trace, kSummed[i], json_integer(memos.values[i]));
  }
}

// Whether a memo of ours misleads nobody: the job has run, and nobody waits for the memo of an instance that failed
// before it had posted one. A job manager that was restarted has not seen these events.
bool may_post_memo(flux_plugin_t *p, flux_plugin_arg_t *args, const Job &job, const Memos *memos, bool completed) {
  const char *end = "";
  flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:{s:s}}", "end_event", "name", &end);
  bool has_run = was_posted(p, "start") || string_view(end) == "finish";
  bool has_answered = completed || (memos && memos->own);
  return has_run && (has_answered || !starts_instance(job.jobspec));
}

int on_cleanup(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  Job job;
  Json event;
  flux_job_result_t result;
  if (!read_traced_job(p, args, job, event) || flux_jobtap_get_job_result(p, FLUX_JOBTAP_CURRENT_JOB, &result) < 0) {
    return 0;
  }
  Json trace = with_stage(event);
  json_object_set_new(trace.get(), "result", json_string(result_name(result)));
  const Memos *memos = find_memos(p);
  if (memos && memos->run) add_sums(*memos, trace.get());
  if (may_post_memo(p, args, job, memos, result == FLUX_JOB_RESULT_COMPLETED)) {
    flux_jobtap_event_post_pack(p, FLUX_JOBTAP_CURRENT_JOB, "memo", "{s:O}", "trace", trace.get());
  } else {
    annotate(args, trace.get());
  }
  return 0;
}

int on_configuration(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  State &state = *state_of(p);
  json_t *table = nullptr;
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s?{s?o}}", "conf", "tailrace", &table);
  const char *load = flux_plugin_get_conf(p);
  Json loaded(load ? json_loads(load, 0, nullptr) : nullptr);
  if (Policy::parse(table, loaded.get(), state.library, state.policy, fault)) return 0;
  return flux_jobtap_error(p, args, "%s", fault.c_str());
}

int on_query(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  State &state = *state_of(p);
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s s:O s:I s:I s:I}", "version", TAILRACE_VERSION,
                              "settings", const_cast<json_t *>(state.policy.settings()), "traced", state.counts.traced,
                              "rejected", state.counts.rejected, "restored",
                              static_cast<json_int_t>(state.restored.size()));
}

constexpr flux_plugin_handler kHandlers[] = {
    {"job.validate", on_validate, nullptr},
    {"job.new", on_new, nullptr},
    {"job.state.depend", on_state, nullptr},
    {"job.state.run", on_state, nullptr},
    {"job.event.memo", on_memo, nullptr},
    {"job.state.cleanup", on_cleanup, nullptr},
    {"conf.update", on_configuration, nullptr},
    {"plugin.query", on_query, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace
}  // namespace tailrace::flux

extern "C" __attribute__((visibility("default"))) int flux_plugin_init(flux_plugin_t *p) {
  using namespace tailrace::flux;
  void *raw = calloc(1, sizeof(State));
  if (!raw) return -1;
  auto *state = new (raw) State();
  if (flux_plugin_aux_set(p, kState, state, destroy_state) < 0) {
    destroy_state(state);
    return -1;
  }
  find_library(p, *state);
  // No job is traced until conf.update, which follows the load.
  return flux_plugin_register(p, "tailrace", kHandlers);
}
