// tailrace-shell.so, a plugin of Flux's job shell: preloads the core into the tasks of a traced job, with their
// context, and seals the journals of dead tasks (tailrace-shell(7)).
//
// Invariants: it never fails a job: a fault is one warning on the job's stderr if its user asked for tracing, and the job
// runs untraced. It starts no process. It runs as the job's user, who owns the run directory. An untraced job costs one RPC and nothing else.
//   flux_plugin_init   requests the job's eventlog
//   shell.init         receives it; creates the run directory (job_context.h); makes the node's sealer
//   shell.start        starts its thread
//   task.init          sets a task's environment (task_environment.cc) or an instance's command line (nested.h)
//   task.fork, exit    reads the kernel's account of a task (task_accounts.h)
//   shell.exit         writes the accounts, seals, and posts a memo of what was traced
#include <dlfcn.h>
#include <errno.h>
#include <flux/core.h>
#include <flux/shell.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "format/journal.h"
#include "format/journal_place.h"
#include "job_context.h"
#include "nested.h"
#include "policy.h"
#include "seal_journals.h"
#include "task_accounts.h"

namespace tailrace::flux {
namespace {

constexpr const char *kState = "tailrace";
constexpr double kReplyTimeout_s = 10;

// The output of a job whose user did not ask for tracing stays as it is without us: `-o verbose` shows these lines.
#define warn_of(job, ...)                                                                                             \
  flux_shell_log(FLUX_SHELL_PLUGIN_NAME, (job).is_asked_for ? FLUX_SHELL_WARN : FLUX_SHELL_DEBUG, __FILE__, __LINE__, \
                 __VA_ARGS__)

// tailrace-seal.so, and the job's sealer in it.
class SealModule {
 public:
  ~SealModule() {
    if (sealer_) free_(sealer_);
    if (library_) dlclose(library_);
  }
  // Makes the sealer, of journals in `directory`.
  void make(const char *module, const char *directory, const char *trace) {
    library_ = module ? dlopen(module, RTLD_NOW | RTLD_LOCAL) : nullptr;
    auto *make = find<MakeSealer>(kMakeSealer);
    start_ = find<StartSealer>(kStartSealer);
    stop_ = find<StopSealer>(kStopSealer);
    seal_ = find<SealJournals>(kSealJournals);
    sum_ = find<SumBlocks>(kSumBlocks);
    free_ = find<FreeSealer>(kFreeSealer);
    if (make && start_ && stop_ && seal_ && sum_ && free_) sealer_ = make(directory, trace);
  }
  void start() {
    if (sealer_) start_(sealer_);
  }
  void stop() {
    if (sealer_) stop_(sealer_);
  }
  int seal(const char *directory, JournalCounts &counts) {
    return sealer_ ? seal_(sealer_, directory, &counts) : -ENOENT;
  }
  // False: there is no sealer.
  bool sum(const char *job, const char *node, JobSums &sums) {
    if (sealer_) sum_(sealer_, job, node, &sums);
    return sealer_ != nullptr;
  }

 private:
  template <class Symbol>
  Symbol *find(const char *name) {
    return library_ ? reinterpret_cast<Symbol *>(dlsym(library_, name)) : nullptr;
  }

  void *library_ = nullptr;
  void *sealer_ = nullptr;
  StartSealer *start_ = nullptr;
  StopSealer *stop_ = nullptr;
  SealJournals *seal_ = nullptr;
  SumBlocks *sum_ = nullptr;
  FreeSealer *free_ = nullptr;
};

struct State {
  JobContext job;
  flux_future_t *eventlog = nullptr;  // the pending request
  TaskAccounts accounts;
  SealModule seal;

  ~State() { flux_future_destroy(eventlog); }
};

void destroy_state(void *state) {
  static_cast<State *>(state)->~State();
  free(state);
}

// `relative` to the folder of this plugin, links resolved; null when it does not exist.
CString beside(flux_plugin_t *p, const char *relative) {
  const char *path = flux_plugin_get_path(p);
  CString own(path ? realpath(path, nullptr) : nullptr);
  if (!own) return nullptr;
  char *slash = strrchr(own.get(), '/');
  CString wanted = formatted("%.*s/%s", static_cast<int>(slash - own.get()), own.get(), relative);
  return CString(realpath(wanted.get(), nullptr));
}

const json_t *find_event(const char *eventlog, Json &event) {
  for (const char *line = eventlog; line && *line;) {
    const char *end = strchr(line, '\n');
    size_t n = end ? static_cast<size_t>(end - line) : strlen(line);
    if (string_view(line, n).find(kEventName) != string_view::npos) {
      Json entry(json_loadb(line, n, 0, nullptr));
      // A restarted job manager may post it again: the last one counts.
      if (text_of(member(entry.get(), "name")) == kEventName) event = Json::share(member(entry.get(), "context"));
    }
    line = end ? end + 1 : nullptr;
  }
  return event.get();
}

// Decides by the job's own attributes, where a user has loaded this plugin and the job manager lacks
// tailrace-jobtap.so.
void judge_without_jobtap(flux_plugin_t *p, JobContext &context) {
  int alone = 0;
  if (flux_plugin_conf_unpack(p, "{s?b}", "without-jobtap", &alone) < 0 || !alone) return;
  context.alone = true;
  CString library = beside(p, TAILRACE_LIBRARY_FROM_PLUGIN);
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  Policy policy;
  Job job;
  job.id = context.id;
  job.jobspec = context.jobspec.get();
  if (!library || !Policy::parse(nullptr, nullptr, library.get(), policy, fault) ||
      policy.judge(job, context.event, fault) == Verdict::kReject) {
    warn_of(context, "not traced: %s",
            library ? fault.c_str() : "libtailrace.so is missing from the installation of this plugin");
  }
}

bool refuses(const json_t *jobspec) {
  return json_is_false(member(member(member(jobspec, "attributes"), "user"), "trace"));
}

void receive_eventlog(flux_plugin_t *p, State &state) {
  const char *eventlog = nullptr;
  if (!state.eventlog) return;
  if (flux_future_wait_for(state.eventlog, kReplyTimeout_s) < 0 ||
      flux_rpc_get_unpack(state.eventlog, "{s:s}", "eventlog", &eventlog) < 0) {
    warn_of(state.job, "not traced: the job's eventlog can't be read: %s", strerror(errno));
  } else if (!find_event(eventlog, state.job.event)) {
    judge_without_jobtap(p, state.job);
  }
  flux_future_destroy(state.eventlog);
  state.eventlog = nullptr;
}

// The default needs no check: the core uses another place.
bool check_journals(flux_shell_t *shell, const JobContext &job, Writer &fault) {
  string_view chosen = chosen_journal_directory(shell, job);
  if (chosen == default_journal_directory()) return true;
  int status = check_journal_directory(chosen, geteuid());
  if (status == 0 || status == -ENOSPC || status == -EDQUOT) return true;
  const char *why = status == -EINVAL  ? "it is no absolute path"
                    : status == -EPERM ? "another user has made our directory in it"
                                       : strerror(-status);
  fault << "the journal directory is " << chosen << ": " << why
        << ": give a directory that this node has and in which you may create files";
  return false;
}

void prepare(flux_shell_t *shell, JobContext &job) {
  char fault_sentence[1024], warning_sentence[1024];
  Writer fault(fault_sentence, sizeof fault_sentence), warning(warning_sentence, sizeof warning_sentence);
  if (!check_journals(shell, job, fault) || !prepare_job(shell, job, fault, warning)) {
    warn_of(job, "not traced: %s", fault.c_str());
    job.event = Json();
  } else if (warning.size()) {
    warn_of(job, "%s", warning.c_str());
  }
}

void make_sealer(flux_plugin_t *p, State &state, string_view chosen);

int on_init(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (!state) return 0;
  JobContext &job = state->job;
  receive_eventlog(p, *state);
  job.nested = starts_instance(job.jobspec.get());
  // Who has an instance traced has its jobs traced.
  if (member(member(job.event.get(), "tags"), "parent")) job.is_asked_for = true;
  if (job.event) prepare(shell, job);
  if (job.event) {
    job.modprobe = beside(p, TAILRACE_MODPROBE_FROM_PLUGIN);
    job.jobtap = beside(p, TAILRACE_JOBTAP_FROM_PLUGIN);
    job.shell_plugins = beside(p, ".");
    job.starter = beside(p, TAILRACE_STARTER_FROM_PLUGIN);
  }
  if (job.event) make_sealer(p, *state, chosen_journal_directory(shell, job));
  // An untraced job must not inherit the configuration of the enclosing instance, nor what it starts.
  if (!job.event && flux_shell_getenv(shell, kInnerVariable)) {
    flux_shell_unsetenv(shell, kInnerVariable);
  }
  return 0;
}

void trace_initial_program(const JobContext &job, flux_cmd_t *cmd) {
  const char *unknown = nullptr;
  if (!job.starter) {
    warn_of(job,
            "the initial program is not traced: " TAILRACE_STARTER_FROM_PLUGIN " is missing from the installation");
  } else if (!wrap_initial_program(cmd, job.starter.get(), task_variables(job, job.tags.get(), cmd).get(), unknown) &&
             unknown) {
    warn_of(job, "the initial program is not traced: unknown option %s before it", unknown);
  }
}

int on_task(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (!state || !state->job.event) return 0;
  const JobContext &job = state->job;
  flux_shell_task_t *task = flux_shell_current_task(shell);
  flux_cmd_t *cmd = task ? flux_shell_task_cmd(task) : nullptr;
  int rank = 0, localid = 0, nodeid = 0;
  if (!cmd || flux_shell_task_info_unpack(task, "{s:i s:i}", "rank", &rank, "localid", &localid) < 0 ||
      flux_shell_info_unpack(shell, "{s:i}", "rank", &nodeid) < 0) {
    warn_of(job, "a task is not traced: %s", strerror(errno));
    return 0;
  }
  if (!job.nested) {
    CString tags = task_tags(job, rank, localid, nodeid);
    set_variables(cmd, task_variables(job, tags.get(), cmd).get());
    configure_started_instances(job, cmd);
    return 0;
  }
  configure_inner_instance(job, cmd);
  trace_initial_program(job, cmd);
  return 0;
}

void warn_of_unsealed(const JobContext &job, const JournalCounts &counts) {
  const char *run = job.run.get();
  if (counts.failed) {
    warn_of(job,
            "%llu events of %llu journals are unsealed on this node, because %s is not writable: make room and run "
            "`tailrace seal %s`",
            static_cast<unsigned long long>(counts.failed_events), static_cast<unsigned long long>(counts.failed), run,
            run);
  }
}

// The file that a task executes, as execvp(3) finds it; null when it is not found.
CString find_program(const flux_cmd_t *cmd) {
  const char *name = flux_cmd_arg(cmd, 0), *cwd = flux_cmd_getcwd(cmd), *path = flux_cmd_getenv(cmd, "PATH");
  if (!name || !*name) return nullptr;
  if (*name == '/') return CString(strdup(name));
  if (strchr(name, '/')) return formatted("%s/%s", cwd ? cwd : "", name);
  CString copy(strdup(path ? path : ""));
  char *rest = nullptr;
  for (char *part = strtok_r(copy.get(), ":", &rest); part; part = strtok_r(nullptr, ":", &rest)) {
    CString program = formatted("%s/%s", part, name);
    if (program && access(program.get(), X_OK) == 0) return program;
  }
  return nullptr;
}

// The brokers of an inner instance are untraced on purpose.
State *state_of_traced_tasks(flux_plugin_t *p) {
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  return state && state->job.event && !state->job.nested ? state : nullptr;
}

int on_fork(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  State *state = state_of_traced_tasks(p);
  flux_shell_task_t *task = state ? flux_shell_current_task(shell) : nullptr;
  flux_cmd_t *cmd = task ? flux_shell_task_cmd(task) : nullptr;
  int pid = 0;
  if (!cmd || flux_shell_task_info_unpack(task, "{s:i}", "pid", &pid) < 0) return 0;
  state->accounts.begin(flux_get_reactor(flux_shell_get_flux(shell)), pid, find_program(cmd));
  return 0;
}

int on_exit_of_task(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  State *state = state_of_traced_tasks(p);
  flux_shell_task_t *task = state ? flux_shell_current_task(flux_plugin_get_shell(p)) : nullptr;
  int pid = 0, status = 0;
  if (!task || flux_shell_task_info_unpack(task, "{s:i s:i}", "pid", &pid, "wait_status", &status) < 0) return 0;
  state->accounts.end(pid, status);
  return 0;
}

// The directory of the user's journals in a place; false: there is no such place.
bool write_journals(Writer &out, int place, string_view chosen, const char *run) {
  int64_t bytes_read = 0;
  if (!write_journal_place(out, place, chosen, geteuid(), run, bytes_read)) return false;
  write_journal_directory(out, geteuid(), run);
  return true;
}

// Tasks find it when their first segment is full, or at their end.
void make_sealer(flux_plugin_t *p, State &state, string_view chosen) {
  char directory[PATH_MAX];
  Writer journals(directory, sizeof directory);
  const char *run = state.job.run.get();
  if (!write_journals(journals, 0, chosen, run)) return;
  CString module = beside(p, TAILRACE_SEAL_FROM_PLUGIN), trace = formatted("%s/trace", run);
  state.seal.make(module.get(), journals.c_str(), trace.get());
}

// Seals the journals of dead tasks on this node.
void seal_journals(SealModule &seal, string_view chosen, const JobContext &job) {
  const char *run = job.run.get();
  seal.stop();
  JournalCounts in_all;
  for (int place = 0; place < kJournalPlaces; ++place) {
    char directory[PATH_MAX];
    Writer journals(directory, sizeof directory);
    if (!write_journals(journals, place, chosen, run)) continue;
    bool done = rmdir(journals.c_str()) == 0 || errno == ENOENT;
    JournalCounts counts;
    int status = done ? 0 : seal.seal(journals.c_str(), counts);
    // Another user may have made our directory in the default place; then the core has used another place.
    bool foreign = status == -EPERM || status == -EACCES || status == -ENOTDIR || status == -ELOOP;
    if (status < 0 && !(foreign && chosen == default_journal_directory())) {
      warn_of(job, "%s: %s: run `tailrace seal %s` on this node", journals.c_str(), strerror(-status), run);
    }
    // The module counts over all of its places.
    if (!done) in_all = counts;
    remove_empty_place(journals.view(), run);
  }
  warn_of_unsealed(job, in_all);
}

// Not before all tasks run: what they are told of the shell's descriptors is as without the sealer's thread.
int on_start(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (state) state->seal.start();
  return 0;
}

// The tag `key` of canonical tags, as KEY=VALUE; null without one.
CString find_tag(string_view tags, string_view key) {
  while (!tags.empty()) {
    size_t comma = tags.find(',');
    string_view tag = slice(tags, 0, comma == string_view::npos ? tags.size() : comma);
    if (starts_with(tag, key) && tag.size() > key.size() && tag[key.size()] == '=') {
      return formatted("%.*s", static_cast<int>(tag.size()), tag.data());
    }
    tags.remove_prefix(comma == string_view::npos ? tags.size() : comma + 1);
  }
  return nullptr;
}

// Waits, so that the memo precedes the job's end. Without it nothing of the trace is missing. `kept`: in the eventlog.
void post_memo(flux_shell_t *shell, const JobContext &job, const Json &found, bool kept) {
  json_object_set_new(found.get(), "run", json_string(job.run.get()));
  flux_future_t *reply =
      flux_rpc_pack(flux_shell_get_flux(shell), "job-manager.memo", FLUX_NODEID_ANY, 0, "{s:I s:b s:{s:O}}", "id",
                    static_cast<json_int_t>(job.id), "volatile", !kept, "memo", "trace", found.get());
  if (!reply || flux_future_wait_for(reply, kReplyTimeout_s) < 0 || flux_rpc_get(reply, nullptr) < 0) {
    shell_debug("no memo of what was traced: %s", strerror(errno));
  }
  flux_future_destroy(reply);
}

Json as_json(const JobSums &sums) {
  auto bytes_read = static_cast<json_int_t>(sums.read_bytes),
       bytes_written = static_cast<json_int_t>(sums.written_bytes);
  return Json(json_pack("{s:I s:I s:I s:I s:I}", "events", static_cast<json_int_t>(sums.events), "bytes",
                        bytes_read + bytes_written, "read", bytes_read, "written", bytes_written, "lost",
                        static_cast<json_int_t>(sums.lost)));
}

// What was traced of this shell's tasks, and the run. It is a part, which tailrace-jobtap.so adds up at the job's end and
// no eventlog needs; without that plugin the sums of an only shell are kept. An instance's own jobs have memos of theirs.
void post_sums(flux_shell_t *shell, State &state) {
  const JobContext &job = state.job;
  int nodeid = 0, shells = 0;
  CString tag = find_tag(job.tags.get(), "job");
  if (json_is_false(member(job.event.get(), "memo")) || !tag ||
      flux_shell_info_unpack(shell, "{s:i s:i}", "rank", &nodeid, "size", &shells) < 0) {
    return;
  }
  if (job.nested) {
    if (nodeid == 0) post_memo(shell, job, Json(json_object()), false);
    return;
  }
  CString of_node = formatted("nodeid=%d", nodeid);
  JobSums sums;
  if (!state.seal.sum(tag.get(), of_node.get(), sums)) return;
  Json found = as_json(sums);
  if (!found) return;
  bool kept = job.alone && shells == 1;
  if (!kept) {
    json_object_set_new(found.get(), "shells", json_integer(shells));
    // `flux jobs` fails at a key of digits.
    CString node = formatted("node%d", nodeid);
    found = Json(json_pack("{s:{s:O}}", "parts", node.get(), found.get()));
  }
  post_memo(shell, job, found, kept);
}

int on_exit_of_shell(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (!state || !state->job.event) return 0;
  const char *run = state->job.run.get();
  int status = state->accounts.write(run);
  if (status < 0) warn_of(state->job, "can't write the tasks' byte accounting to %s: %s", run, strerror(-status));
  seal_journals(state->seal, chosen_journal_directory(shell, state->job), state->job);
  post_sums(shell, *state);
  return 0;
}

constexpr flux_plugin_handler kHandlers[] = {
    {"shell.init", on_init, nullptr},   {"task.init", on_task, nullptr},
    {"task.fork", on_fork, nullptr},    {"task.exit", on_exit_of_task, nullptr},
    {"shell.start", on_start, nullptr}, {"shell.exit", on_exit_of_shell, nullptr},
    {nullptr, nullptr, nullptr},
};

// Requests the eventlog as early as possible: the reply arrives while the shell continues.
//
// The state belongs to the registered plugin, not to the shell: a second copy of this plugin (the instance's and the
// user's) replaces the first, which is unloaded with its code and may be of another version.
void request_eventlog(flux_plugin_t *p, flux_shell_t *shell) {
  json_t *jobspec = nullptr;
  json_int_t id = 0;
  if (flux_shell_info_unpack(shell, "{s:I s:o}", "jobid", &id, "jobspec", &jobspec) < 0) return;
  void *raw = calloc(1, sizeof(State));
  if (!raw) return;
  auto *state = new (raw) State();
  state->job.id = static_cast<flux_jobid_t>(id);
  state->job.jobspec = Json::share(jobspec);
  if (flux_plugin_aux_set(p, kState, state, destroy_state) < 0) {
    destroy_state(state);
    return;
  }
  state->job.is_asked_for = asks_for_tracing(jobspec);
  if (refuses(jobspec)) return;
  state->eventlog = flux_rpc_pack(flux_shell_get_flux(shell), "job-info.lookup", FLUX_NODEID_ANY, 0, "{s:I s:[s] s:i}",
                                  "id", id, "keys", "eventlog", "flags", 0);
}

}  // namespace
}  // namespace tailrace::flux

extern "C" __attribute__((visibility("default"))) int flux_plugin_init(flux_plugin_t *p) {
  using namespace tailrace::flux;
  flux_shell_t *shell = flux_plugin_get_shell(p);
  if (shell) request_eventlog(p, shell);
  flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, kHandlers);
  return 0;
}
