// tailrace-shell.so, a plugin of Flux's job shell: gives the tasks of a traced job the tracing core and their context,
// and seals what dead tasks have left (tailrace-shell(7)).
//
// What always holds: it never fails a job. What can't be done is said in one warning on the job's stderr, and the job
// runs untraced. It starts no process. It runs as the job's user, so the run directory is the user's.
//   flux_plugin_init   asks for the job's eventlog
//   shell.init         has the answer; makes the run directory; one RPC a job, and nothing else where it isn't traced
//   task.init          the environment of a task, or the command line of an instance (nested.h)
//   shell.exit         seals
#define FLUX_SHELL_PLUGIN_NAME "tailrace"
#include <dlfcn.h>
#include <errno.h>
#include <flux/core.h>
#include <flux/shell.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "base/clock.h"
#include "format/journal.h"
#include "nested.h"
#include "policy.h"
#include "rundir.h"
#include "seal_journals.h"
#include "format/settings.h"

namespace tailrace::flux {
namespace {

constexpr const char *kState = "tailrace";
constexpr double kAnswerWait_s = 10;

struct State {
  flux_future_t *asked = nullptr;
  Json event;  // the context of the job's event; null: not traced
  Json jobspec;
  flux_jobid_t id = 0;
  bool nested = false;
  CString run;   // the run directory, links resolved
  CString base;  // the job's tags, canonical
  CString untraced;
  CString modprobe, jobtap, shell_plugins, starter;  // where the parts for an inner instance lie
  char clock[64] = "";

  ~State() { flux_future_destroy(asked); }
};

void destroy_state(void *state) {
  static_cast<State *>(state)->~State();
  free(state);
}

CString formatted(const char *format, ...) __attribute__((format(printf, 1, 2)));
CString formatted(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = nullptr;
  int n = vasprintf(&text, format, args);
  va_end(args);
  return CString(n < 0 ? nullptr : text);
}

// `relative` to the folder of this plugin, links resolved; null when nothing is there.
CString beside(flux_plugin_t *p, const char *relative) {
  const char *path = flux_plugin_get_path(p);
  CString own(path ? realpath(path, nullptr) : nullptr);
  if (!own) return nullptr;
  char *slash = strrchr(own.get(), '/');
  CString wanted = formatted("%.*s/%s", static_cast<int>(slash - own.get()), own.get(), relative);
  return CString(realpath(wanted.get(), nullptr));
}

const json_t *event_in(const char *eventlog, Json &held) {
  for (const char *line = eventlog; line && *line;) {
    const char *end = strchr(line, '\n');
    size_t n = end ? static_cast<size_t>(end - line) : strlen(line);
    if (string_view(line, n).find(kEventName) != string_view::npos) {
      Json entry(json_loadb(line, n, 0, nullptr));
      // A restarted job manager may have posted it again: the last one counts.
      if (text_of(member(entry.get(), "name")) == kEventName) held = Json::share(member(entry.get(), "context"));
    }
    line = end ? end + 1 : nullptr;
  }
  return held.get();
}

// A user who has only this plugin, in an instance without ours in the job manager, is the one who decides.
void judge_alone(flux_plugin_t *p, State &state) {
  int alone = 0;
  if (flux_plugin_conf_unpack(p, "{s?b}", "without-jobtap", &alone) < 0 || !alone) return;
  CString library = beside(p, TAILRACE_LIBRARY_FROM_PLUGIN);
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  Policy policy;
  Job job;
  job.id = state.id;
  job.jobspec = state.jobspec.get();
  if (!library || !Policy::parse(nullptr, nullptr, library.get(), policy, fault) ||
      policy.judge(job, state.event, fault) == Verdict::kReject) {
    shell_warn("not traced: %s", library ? fault.c_str() : "libtailrace.so is not where it was installed");
  }
}

bool refuses(const json_t *jobspec) {
  return json_is_false(member(member(member(jobspec, "attributes"), "user"), "trace"));
}

void take_answer(flux_plugin_t *p, State &state) {
  const char *eventlog = nullptr;
  if (!state.asked) return;
  if (flux_future_wait_for(state.asked, kAnswerWait_s) < 0 ||
      flux_rpc_get_unpack(state.asked, "{s:s}", "eventlog", &eventlog) < 0) {
    shell_warn("not traced: the job's eventlog can't be read: %s", strerror(errno));
  } else if (!event_in(eventlog, state.event)) {
    judge_alone(p, state);
  }
  flux_future_destroy(state.asked);
  state.asked = nullptr;
}

bool check_event(const State &state, Writer &fault) {
  json_t *version = member(state.event.get(), "version");
  string_view library = text_of(member(state.event.get(), "library"));
  if (!json_is_integer(version) || json_integer_value(version) != kEventVersion) {
    fault << "the event " << kEventName << " is of another version than this plugin, " TAILRACE_VERSION;
    return false;
  }
  if (library.empty() || library[0] != '/' || !json_is_object(member(state.event.get(), "tags")) ||
      text_of(member(state.event.get(), "run")).empty()) {
    fault << "the event " << kEventName << " is not whole";
    return false;
  }
  if (access(library.data(), R_OK) == 0) return true;
  fault << library << " can't be read on this node: install tailrace there, or set `library` in [tailrace]";
  return false;
}

// The path of the job in all instances, and of the outermost job that is one.
const char *job_path(flux_shell_t *shell) {
  const char *path = flux_shell_getenv(shell, "FLUX_JOB_ID_PATH");
  return path ? path : "";
}

// The id path in its ASCII form, as it can be typed and be a file's name: f1/f2.
CString plain_path(const char *path) {
  Json out(json_string(""));
  CString copy(strdup(path)), plain(strdup(""));
  char *rest = nullptr;
  for (char *part = strtok_r(copy.get(), "/", &rest); part; part = strtok_r(nullptr, "/", &rest)) {
    flux_jobid_t id;
    char text[64];
    if (flux_job_id_parse(part, &id) < 0 || flux_job_id_encode(id, "f58plain", text, sizeof text) < 0) continue;
    plain = formatted("%s%s%s", plain.get(), *plain.get() ? "/" : "", text);
  }
  return plain;
}

// What Flux knows goes under what the event has.
bool make_base_tags(flux_shell_t *shell, State &state, Writer &fault) {
  json_t *tags = member(state.event.get(), "tags");
  const char *path = job_path(shell);
  CString plain = plain_path(path);
  if (!member(tags, "task") && *plain.get()) json_object_set_new(tags, "task", json_string(plain.get()));
  if (*path) json_object_set_new(tags, "job", json_string(path));
  // An instance is one workflow, with all in it, unless another name was given.
  size_t outermost = strcspn(plain.get(), "/");
  if (outermost && (plain.get()[outermost] || state.nested) && !member(tags, "workflow")) {
    json_object_set_new(tags, "workflow", json_stringn(plain.get(), outermost));
  }
  char canonical[kMaxTagsBytes + 1];
  Writer out(canonical, sizeof canonical);
  if (!encode_tags(tags, out, fault)) return false;
  state.base.reset(strdup(out.c_str()));
  return true;
}

// What run.json says was run. Jobs of one workflow share a run, which isn't any one's of them.
Json describe_command(const State &state, const char *named_workflow) {
  const json_t *task = json_array_get(member(state.jobspec.get(), "tasks"), 0);
  bool of_one_job = text_of(member(state.event.get(), "run")).find("id") != string_view::npos &&
                    text_of(member(state.event.get(), "run")).find("{{") != string_view::npos;
  if (named_workflow && !of_one_job) return Json(json_pack("[s s s]", "flux:", "workflow", named_workflow));
  Json name = job_name(state.jobspec.get());
  if (state.nested && name) return Json(json_pack("[s s O]", "flux:", "batch", name.get()));
  return Json::share(member(task, "command"));
}

bool make_run(flux_shell_t *shell, State &state, const char *named_workflow, Writer &fault) {
  const json_t *system = member(member(state.jobspec.get(), "attributes"), "system");
  const char *cwd = json_string_value(member(system, "cwd"));
  CString wanted(flux_shell_mustache_render(shell, json_string_value(member(state.event.get(), "run"))));
  if (!wanted) {
    fault << "the run directory's name can't be made: " << strerror(errno);
    return false;
  }
  if (wanted.get()[0] != '/') wanted = formatted("%s/%s", cwd ? cwd : "/", wanted.get());
  Json command = describe_command(state, named_workflow);
  RunDescription description{command.get(), cwd ? cwd : "/", state.base.get()};
  bool made = make_run_directory(wanted.get(), description, state.run, fault);
  if (made && fault.size()) shell_warn("%s", fault.c_str());
  return made;
}

// Flux's command by PATH and where it was when this plugin was built.
CString flux_programs(flux_shell_t *shell) {
  const char *path = flux_shell_getenv(shell, "PATH");
  CString copy(strdup(path ? path : ""));
  char *rest = nullptr;
  for (char *part = strtok_r(copy.get(), ":", &rest); part; part = strtok_r(nullptr, ":", &rest)) {
    CString program = formatted("%s/flux", part);
    if (*part == '/' && strcmp(program.get(), TAILRACE_FLUX_PROGRAM) != 0 && access(program.get(), X_OK) == 0) {
      return formatted("%s:%s", program.get(), TAILRACE_FLUX_PROGRAM);
    }
  }
  return CString(strdup(TAILRACE_FLUX_PROGRAM));
}

void begin(flux_shell_t *shell, State &state) {
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  Json named = Json::share(member(member(state.event.get(), "tags"), "workflow"));
  if (!check_event(state, fault) || !make_base_tags(shell, state, fault) ||
      !make_run(shell, state, json_string_value(named.get()), fault)) {
    shell_warn("not traced: %s", fault.c_str());
    state.event = Json();
    return;
  }
  Writer clock(state.clock, sizeof state.clock);
  write_clock_reference(clock);
  clock.c_str();
  state.untraced = flux_programs(shell);
}

int on_init(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (!state) return 0;
  take_answer(p, *state);
  state->nested = starts_instance(state->jobspec.get());
  if (state->event) begin(shell, *state);
  if (state->event && state->nested) {
    state->modprobe = beside(p, TAILRACE_MODPROBE_FROM_PLUGIN);
    state->jobtap = beside(p, TAILRACE_JOBTAP_FROM_PLUGIN);
    state->shell_plugins = beside(p, ".");
    state->starter = beside(p, TAILRACE_STARTER_FROM_PLUGIN);
  }
  // An instance that isn't traced doesn't inherit what was meant for the one around it.
  if (state->nested && !state->event && flux_shell_getenv(shell, kInnerVariable)) {
    flux_shell_unsetenv(shell, kInnerVariable);
  }
  return 0;
}

// The job's tags with those of one task over them.
CString task_tags(const State &state, int rank, int localid, int nodeid) {
  char own[96], canonical[kMaxTagsBytes + 1], sentence[256];
  Writer more(own, sizeof own), out(canonical, sizeof canonical), ignored(sentence, sizeof sentence);
  more << "rank=";
  more.number(rank) << ",localid=";
  more.number(localid) << ",nodeid=";
  more.number(nodeid);
  TagSet base, over;
  size_t at;
  if (!parse_tags(state.base.get(), base, at, ignored) || !parse_tags(more.view(), over, at, ignored) ||
      !merge_tags(base, over, out)) {
    return CString(strdup(state.base.get()));
  }
  return CString(strdup(out.c_str()));
}

// The variables of a traced process, as strings NAME=VALUE. What the user has set for journals stays.
Json variables(const State &state, const char *tags, const flux_cmd_t *cmd) {
  const char *library = json_string_value(member(state.event.get(), "library"));
  const char *preloads = flux_cmd_getenv(cmd, "LD_PRELOAD");
  bool others = preloads && *preloads;
  Json list(json_array());
  auto add = [&](const char *name, const char *value) {
    json_array_append_new(list.get(), json_sprintf("%s=%s", name, value));
  };
  CString joined = formatted("%s%s%s", library, others ? ":" : "", others ? preloads : "");
  add("LD_PRELOAD", joined.get());
  add("TAILRACE_RUN", state.run.get());
  add("TAILRACE_TAGS", tags);
  add("TAILRACE_CLOCK", state.clock);
  add("TAILRACE_UNTRACED", state.untraced.get());
  for (const HandedOn &one : kHandedOn) {
    const json_t *value = member(state.event.get(), one.key);
    if (!value || flux_cmd_getenv(cmd, one.variable)) continue;
    CString number = formatted("%lld", static_cast<long long>(json_integer_value(value)));
    add(one.variable, json_is_string(value) ? json_string_value(value) : number.get());
  }
  return list;
}

void set_variables(flux_cmd_t *cmd, const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); ++i) {
    CString entry(strdup(json_string_value(json_array_get(list, i))));
    char *equals = strchr(entry.get(), '=');
    *equals = 0;
    flux_cmd_setenvf(cmd, 1, entry.get(), "%s", equals + 1);
  }
}

// What the inner instance's rc1 reads: the same run, and tags that lead back to this job.
void tell_inner(flux_shell_t *shell, const State &state, flux_cmd_t *cmd) {
  Json tags(json_deep_copy(member(state.event.get(), "tags")));
  Json workflow = Json::share(member(tags.get(), "workflow"));
  for (const char *key : {"workflow", "stage", "task", "job", "rank"}) json_object_del(tags.get(), key);
  json_object_set_new(tags.get(), "parent", json_string(job_path(shell)));
  Json conf(json_pack("{s:s s:s s:O s:O}", "jobs", "all", "run", state.run.get(), "library",
                      member(state.event.get(), "library"), "tags", tags.get()));
  if (workflow) json_object_set(conf.get(), "workflow", workflow.get());
  for (const HandedOn &one : kHandedOn) {
    json_t *value = member(state.event.get(), one.key);
    if (value) json_object_set(conf.get(), one.key, value);
  }
  // No command of Flux in the script hands this on, as it is one of ours.
  const char *propagation = flux_cmd_getenv(cmd, "TAILRACE_PROPAGATE");
  if (propagation && is_propagation(propagation)) {
    json_object_set_new(conf.get(), "propagate", json_string(propagation));
  }
  Json told(json_pack("{s:s? s:s? s:O}", "jobtap", state.jobtap.get(), "shell", state.shell_plugins.get(), "conf",
                      conf.get()));
  CString text(json_dumps(told.get(), JSON_COMPACT));
  if (!text) return;
  flux_cmd_setenvf(cmd, 1, kInnerVariable, "%s", text.get());
  if (!state.modprobe) return;
  const char *before = flux_cmd_getenv(cmd, "FLUX_MODPROBE_PATH_APPEND");
  flux_cmd_setenvf(cmd, 1, "FLUX_MODPROBE_PATH_APPEND", "%s%s%s", before ? before : "", before && *before ? ":" : "",
                   state.modprobe.get());
}

void trace_initial_program(const State &state, flux_cmd_t *cmd) {
  const char *unknown = nullptr;
  if (!state.starter) {
    shell_warn("the initial program is not traced: " TAILRACE_STARTER_FROM_PLUGIN " is not where it was installed");
  } else if (!wrap_initial_program(cmd, state.starter.get(), variables(state, state.base.get(), cmd).get(), unknown) &&
             unknown) {
    shell_warn("the initial program is not traced: %s is an option that this plugin doesn't know", unknown);
  }
}

int on_task(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (!state || !state->event) return 0;
  flux_shell_task_t *task = flux_shell_current_task(shell);
  flux_cmd_t *cmd = task ? flux_shell_task_cmd(task) : nullptr;
  int rank = 0, localid = 0, nodeid = 0;
  if (!cmd || flux_shell_task_info_unpack(task, "{s:i s:i}", "rank", &rank, "localid", &localid) < 0 ||
      flux_shell_info_unpack(shell, "{s:i}", "rank", &nodeid) < 0) {
    shell_warn("a task is not traced: %s", strerror(errno));
    return 0;
  }
  if (!state->nested) {
    CString tags = task_tags(*state, rank, localid, nodeid);
    set_variables(cmd, variables(*state, tags.get(), cmd).get());
    return 0;
  }
  tell_inner(shell, *state, cmd);
  trace_initial_program(*state, cmd);
  return 0;
}

void say_what_waits(const char *run, const JournalCounts &counts) {
  if (counts.failed) {
    shell_warn("%llu events of %llu journals wait on this node, as %s can't be written to: do `tailrace seal %s`",
               static_cast<unsigned long long>(counts.failed_events), static_cast<unsigned long long>(counts.failed),
               run, run);
  }
}

// Journals that dead tasks have left on this node become blocks. What that needs is loaded only when there are any.
int on_exit_of_shell(flux_plugin_t *p, const char *, flux_plugin_arg_t *, void *) {
  flux_shell_t *shell = flux_plugin_get_shell(p);
  auto *state = static_cast<State *>(flux_plugin_aux_get(p, kState));
  if (!state || !state->event) return 0;
  const char *chosen = flux_shell_getenv(shell, "TAILRACE_JOURNAL_DIR");
  if (!chosen) chosen = json_string_value(member(state->event.get(), "journal-dir"));
  constexpr size_t kSetting = static_cast<size_t>(Setting::TAILRACE_JOURNAL_DIR);
  char directory[PATH_MAX];
  Writer journals(directory, sizeof directory);
  write_journal_directory(journals, chosen ? string_view(chosen) : kSettings[kSetting].fallback, geteuid(),
                          state->run.get());
  if (rmdir(journals.c_str()) == 0 || errno == ENOENT) return 0;
  CString module = beside(p, TAILRACE_SEAL_FROM_PLUGIN), trace = formatted("%s/trace", state->run.get());
  void *library = module ? dlopen(module.get(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  auto *seal = library ? reinterpret_cast<SealJournals *>(dlsym(library, kSealJournals)) : nullptr;
  JournalCounts counts;
  int status = seal ? seal(journals.c_str(), trace.get(), &counts) : -ENOENT;
  if (status < 0) {
    shell_warn("%s: %s: do `tailrace seal %s` on this node", journals.c_str(), strerror(-status), state->run.get());
  }
  say_what_waits(state->run.get(), counts);
  if (library) dlclose(library);
  return 0;
}

constexpr flux_plugin_handler kHandlers[] = {
    {"shell.init", on_init, nullptr},
    {"task.init", on_task, nullptr},
    {"shell.exit", on_exit_of_shell, nullptr},
    {nullptr, nullptr, nullptr},
};

// Requests the eventlog as early as possible: the answer arrives while the shell continues.
//
// The state belongs to the plugin that is registered, not to the shell: a second copy of this plugin (the instance's
// and the user's) replaces the first, which is unloaded with its code, and may be of another version.
void ask(flux_plugin_t *p, flux_shell_t *shell) {
  json_t *jobspec = nullptr;
  json_int_t id = 0;
  if (flux_shell_info_unpack(shell, "{s:I s:o}", "jobid", &id, "jobspec", &jobspec) < 0) return;
  void *raw = calloc(1, sizeof(State));
  if (!raw) return;
  auto *state = new (raw) State();
  state->id = static_cast<flux_jobid_t>(id);
  state->jobspec = Json::share(jobspec);
  if (flux_plugin_aux_set(p, kState, state, destroy_state) < 0) {
    destroy_state(state);
    return;
  }
  if (refuses(jobspec)) return;
  state->asked = flux_rpc_pack(flux_shell_get_flux(shell), "job-info.lookup", FLUX_NODEID_ANY, 0, "{s:I s:[s] s:i}",
                               "id", id, "keys", "eventlog", "flags", 0);
}

}  // namespace
}  // namespace tailrace::flux

extern "C" __attribute__((visibility("default"))) int flux_plugin_init(flux_plugin_t *p) {
  using namespace tailrace::flux;
  flux_shell_t *shell = flux_plugin_get_shell(p);
  if (shell) ask(p, shell);
  flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, kHandlers);
  return 0;
}
