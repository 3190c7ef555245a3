// tailrace-jobtap.so, a plugin of Flux's job manager: decides which jobs are traced and informs their shells by an
// event in the job's eventlog (tailrace-jobtap(7)). A jobtap plugin can't set a task's environment; tailrace-shell.so
// does.
//
// Invariants: it runs on rank 0 as the instance's owner, so it opens no file and starts no process. It keeps nothing
// about a job in memory, except for a restored job until its eventlog is read, and the sums of a job on several nodes. A job without a request is never
// rejected. flux-jobtap-plugins(7) describes the callbacks.
//   job.validate        rejects a job whose request breaks a rule
//   job.new             posts the event and the memo; called again for every active job when the plugin is loaded and
//                       when the job manager restarts
//   job.event.memo      adds up the parts that the shells of a job on several nodes post
//   job.state.cleanup   posts the result and these sums, as a memo
//   conf.update         the [tailrace] table; applied completely or not at all
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
  const char *stage = json_string_value(member(member(event, "tags"), "stage"));
  if (flux_jobtap_event_post_pack(p, id, kEventName, "O", event) < 0 ||
      (state.policy.posts_memo() &&
       flux_jobtap_event_post_pack(p, id, "memo", "{s:{s:s}}", "trace", "stage", stage ? stage : "") < 0)) {
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

int on_new(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  Job job;
  int job_state;
  Json event;
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  constexpr int kTooLate = FLUX_JOB_STATE_RUN | FLUX_JOB_STATE_CLEANUP | FLUX_JOB_STATE_INACTIVE;
  if (!read_job(args, job, &job_state) || (job_state & kTooLate)) return 0;
  if (judge(p, job, event, fault) != Verdict::kTrace || was_posted(p, kEventName)) return 0;
  if (is_restored(p, job_state)) {
    post_unless_posted_before(p, job.id, static_cast<Json &&>(event));
  } else {
    post(p, FLUX_JOBTAP_CURRENT_JOB, event.get());
  }
  return 0;
}

// What the shells have posted: number of parts, and their sums.
constexpr const char *kSums = "tailrace::sums";
constexpr const char *kSummed[] = {"events", "bytes", "read", "written", "lost"};
struct Sums {
  json_int_t parts = 0, shells = 0, values[sizeof kSummed / sizeof *kSummed] = {};
  Json run;
};

void destroy_sums(void *sums) {
  static_cast<Sums *>(sums)->~Sums();
  free(sums);
}

// Any user may post a memo to their own job: what is no number, or negative, counts nothing.
int on_memo(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  json_t *parts = nullptr, *run = nullptr;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:{s:{s:{s:o s:o}}}}", "entry", "context", "trace", "parts",
                             &parts, "run", &run) < 0 ||
      !json_is_object(parts)) {
    return 0;
  }
  auto *sums = static_cast<Sums *>(flux_jobtap_job_aux_get(p, FLUX_JOBTAP_CURRENT_JOB, kSums));
  if (!sums) {
    void *raw = calloc(1, sizeof(Sums));
    if (!raw) return 0;
    sums = new (raw) Sums();
    if (flux_jobtap_job_aux_set(p, FLUX_JOBTAP_CURRENT_JOB, kSums, sums, destroy_sums) < 0) {
      destroy_sums(sums);
      return 0;
    }
  }
  sums->run = Json::share(run);
  constexpr json_int_t kMost = 1LL << 53;
  const char *node;
  json_t *part;
  json_object_foreach(parts, node, part) {
    ++sums->parts;
    sums->shells = json_integer_value(member(part, "shells"));
    for (size_t i = 0; i < sizeof kSummed / sizeof *kSummed; ++i) {
      json_int_t value = json_integer_value(member(part, kSummed[i]));
      if (value > 0 && value < kMost - sums->values[i]) sums->values[i] += value;
    }
  }
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

int on_cleanup(flux_plugin_t *p, const char *, flux_plugin_arg_t *args, void *) {
  Job job;
  int job_state;
  Json event;
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  flux_job_result_t result;
  if (!state_of(p)->policy.posts_memo() || !read_job(args, job, &job_state)) return 0;
  bool traced =
      was_posted(p, kEventName) || (is_restored(p, job_state) && judge(p, job, event, fault) == Verdict::kTrace);
  if (traced && flux_jobtap_get_job_result(p, FLUX_JOBTAP_CURRENT_JOB, &result) == 0) {
    Json memo(json_pack("{s:s}", "result", result_name(result)));
    auto *sums = static_cast<Sums *>(flux_jobtap_job_aux_get(p, FLUX_JOBTAP_CURRENT_JOB, kSums));
    if (sums) {
      json_object_set(memo.get(), "run", sums->run.get());
      json_object_set_new(memo.get(), "parts", json_null());
    }
    // Less would look like all: after a restart, or where a shell was killed, parts are missing.
    if (sums && sums->parts == sums->shells) {
      for (size_t i = 0; i < sizeof kSummed / sizeof *kSummed; ++i) {
        json_object_set_new(memo.get(), kSummed[i], json_integer(sums->values[i]));
      }
    }
    flux_jobtap_event_post_pack(p, FLUX_JOBTAP_CURRENT_JOB, "memo", "{s:O}", "trace", memo.get());
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
