// tailrace-spank.so, a SPANK plugin of Slurm (spank(7)): preloads the core into the tasks of a traced job with their
// tags, and has them sealed at the step's end (docs/slurm.md).
//
// Invariants: it never fails a job: every function but the options' checks returns success, and what can't be traced
// runs untraced. In slurmstepd, which is root, it touches no file of the user's: a process with the user's rights does
// (step_process.h). An untraced step costs the look at its options and nothing else.
//
//   srun, sbatch, salloc    slurm_spank_init        registers the options (options.h)
//                           ..._init_post_opt       tells the job who submits it
//   slurmstepd              ..._user_init           decides; starts the step's process, which answers with the settings
//                           ..._task_init           puts them into a task's environment
//                           ..._task_exit           of the last task: has the dead sealed, and says what was recorded
//                           ..._exit                has the rest sealed
//
// The dead are sealed when the last task has ended: at ..._exit the user's terminal or output file is closed.
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/host_facts.h"
#include "options.h"
#include "policy.h"
#include "protocol.h"
#include "step_process.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char plugin_name[];
EXPORTED const char plugin_type[];
EXPORTED const unsigned int plugin_version;
EXPORTED const unsigned int spank_plugin_version;
const char plugin_name[] = "tailrace";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

namespace tailrace::slurm {
namespace {

// A file system that hangs must not hold up a job for longer than this.
constexpr int kStartTimeout_ms = 10'000, kEndTimeout_ms = 20'000;

struct Plugin {
  Policy policy;
  bool usable = false;
  char fault[512] = "";  // of the configuration
  Options options;
  StepProcess process;
  string_view settings;  // NAME=VALUE, each with a zero
  char settings_text[64 * 1024];
  uint32_t tasks = 0, ended = 0;
  int worst = 0;  // wait status
  bool summed_up = false;
};
Plugin g_plugin;

uint32_t item(spank_t spank, spank_item_t which, uint32_t fallback) {
  uint32_t value = 0;
  return spank_get_item(spank, which, &value) == ESPANK_SUCCESS ? value : fallback;
}

const char *variable(char *const *environment, const char *name) {
  const size_t n = strlen(name);
  for (; environment && *environment; ++environment) {
    if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') return *environment + n + 1;
  }
  return "";
}

// To the user who asked for a trace; to slurmd's log where the facility traces all.
void say_untraced(string_view why) {
  const int n = static_cast<int>(why.size());
  if (g_plugin.options.traced) {
    slurm_spank_log("tailrace: not traced: %.*s", n, why.data());
  } else {
    slurm_info("tailrace: not traced: %.*s", n, why.data());
  }
}

bool is_wanted(uint32_t job, uint32_t step, char *const *environment) {
  const Policy &policy = g_plugin.policy;
  if (step == SLURM_EXTERN_CONT || g_plugin.options.refused) return false;
  if (!g_plugin.usable) {
    say_untraced(g_plugin.fault);
    return false;
  }
  if (policy.jobs == Policy::Jobs::kNone) return false;
  // Of a traced job, or submitted by a program that is traced itself.
  if (g_plugin.options.traced || *variable(environment, kRunVariable) != 0) return true;
  return policy.jobs == Policy::Jobs::kAll &&
         policy.selects(variable(environment, "SLURM_JOB_NAME"), variable(environment, "SLURM_JOB_PARTITION"), job);
}

// `relative` to the folder of this plugin; false when it is not there.
bool find_beside(const char *relative, char (&out)[PATH_MAX]) {
  Dl_info about;
  char own[PATH_MAX], joined[2 * PATH_MAX];
  if (dladdr(&g_plugin, &about) == 0 || !realpath(about.dli_fname, own)) return false;
  const char *slash = strrchr(own, '/');
  snprintf(joined, sizeof joined, "%.*s/%s", static_cast<int>(slash - own), own, relative);
  return realpath(joined, out) != nullptr;
}

// What the step's process gets of the job's environment: nothing by which the dynamic linker or libc would be steered.
bool is_passed(const char *entry) {
  for (const char *prefix : {"TAILRACE_", "SLURM_", "PATH=", "HOME=", "TZ="}) {
    if (strncmp(entry, prefix, strlen(prefix)) == 0) return true;
  }
  return false;
}

// Words of the form key=value, for step.cc.
class StepWords {
 public:
  explicit StepWords(const char *program) { add("", program); }
  void add(const char *key, string_view value) {
    if (count_ + 1 >= kMost) return;
    const size_t before = text_.size();
    text_ << key << (*key ? "=" : "") << value << '\0';
    if (!text_.overflowed()) words_[count_++] = room_ + before;
  }
  void add(const char *key, int64_t value) {
    char digits[24];
    add(key, {digits, static_cast<size_t>(put_signed(digits, value) - digits)});
  }
  char *const *get() { return words_; }

 private:
  static constexpr size_t kMost = 64;
  char room_[64 * 1024];
  Writer text_{room_, sizeof room_};
  char *words_[kMost] = {};
  size_t count_ = 0;
};

void describe_step(spank_t spank, uint32_t job, uint32_t step, StepWords &words) {
  const Policy &policy = g_plugin.policy;
  const Options &options = g_plugin.options;
  uint32_t count = 0;
  char **arguments = nullptr, *version = nullptr;
  words.add("run", policy.run_for(options.traced));
  words.add("policy-tags", policy.tags);
  if (policy.choose_run) words.add("asked", options.run);
  words.add("stage", options.stage);
  words.add("tags", options.tags);
  words.add("job", int64_t{job});
  if (step != SLURM_BATCH_SCRIPT) words.add("step", step == SLURM_INTERACTIVE_STEP ? int64_t{-1} : int64_t{step});
  if (const uint32_t array = item(spank, S_JOB_ARRAY_ID, 0); array != 0) {
    const uint32_t index = item(spank, S_JOB_ARRAY_TASK_ID, NO_VAL);
    if (index != NO_VAL) words.add("array", int64_t{array}), words.add("index", int64_t{index});
  }
  words.add("node", int64_t{item(spank, S_JOB_NODEID, 0)});
  words.add("summary", policy.summary ? "yes" : "no");
  if (spank_get_item(spank, S_SLURM_VERSION, &version) == ESPANK_SUCCESS) words.add("slurm", version);
  if (spank_get_item(spank, S_JOB_ARGV, &count, &arguments) != ESPANK_SUCCESS) return;
  for (uint32_t i = 0; i < count && i < 16; ++i) words.add("word", slice(arguments[i], 0, strnlen(arguments[i], 1024)));
}

void add_library(StepWords &words) {
  char path[PATH_MAX];
  if (!g_plugin.policy.library.empty()) {
    words.add("library", g_plugin.policy.library);
  } else if (find_beside(TAILRACE_LIBRARY_FROM_PLUGIN, path)) {
    words.add("library", path);
  }
}

void add_chosen_settings(StepWords &words) {
  const Policy &policy = g_plugin.policy;
  if (!policy.journal_dir.empty()) words.add("TAILRACE_JOURNAL_DIR", policy.journal_dir);
  if (!policy.block_age.empty()) words.add("TAILRACE_BLOCK_AGE", policy.block_age);
  if (!policy.propagate.empty()) words.add("TAILRACE_PROPAGATE", policy.propagate);
  if (!policy.detail.empty()) words.add("TAILRACE_DETAIL", policy.detail);
}

void start_process(spank_t spank, uint32_t job, uint32_t step, char *const *environment) {
  char program[PATH_MAX];
  if (!find_beside(TAILRACE_STEP_FROM_PLUGIN, program)) {
    return say_untraced(TAILRACE_STEP_FROM_PLUGIN " is missing from the installation of this plugin");
  }
  static StepWords words(program);
  describe_step(spank, job, step, words);
  add_library(words);
  add_chosen_settings(words);
  constexpr size_t kMostVariables = 1024;
  static char *passed[kMostVariables + 1];
  size_t n = 0;
  for (char *const *entry = environment; entry && *entry && n < kMostVariables; ++entry) {
    if (is_passed(*entry)) passed[n++] = *entry;
  }
  string_view answer;
  if (const int error = g_plugin.process.start(program, words.get(), passed)) return say_untraced(strerror(error));
  if (!g_plugin.process.ask("", kStartTimeout_ms, answer))
    return say_untraced("the run directory could not be made in time");
  if (answer.empty() || answer[0] != kTraced) {
    say_untraced(answer.empty() ? "no answer" : slice(answer, 1, strnlen(answer.data() + 1, answer.size() - 1)));
    g_plugin.process.finish(kEndTimeout_ms);
    return;
  }
  memcpy(g_plugin.settings_text, answer.data() + 1, answer.size() - 1);
  g_plugin.settings = {g_plugin.settings_text, answer.size() - 1};
}

// Of NAME=VALUE with a zero at its end.
void set_variable(spank_t spank, const char *entry, const char *own) {
  const char *equals = strchr(entry, '=');
  char name[64], value[kMaxTagsBytes + 64], preloads[16 * 1024];
  if (!equals || equals - entry >= static_cast<ptrdiff_t>(sizeof name)) return;
  Writer key(name, sizeof name), joined(value, sizeof value);
  (key << slice(entry, 0, static_cast<size_t>(equals - entry))).c_str();
  const char *text = equals + 1;
  if (strcmp(name, "LD_PRELOAD") == 0) {
    // Other plugins may have put theirs there meanwhile.
    const bool others = spank_getenv(spank, name, preloads, sizeof preloads) == ESPANK_SUCCESS && *preloads;
    static char list[sizeof preloads + PATH_MAX];
    snprintf(list, sizeof list, "%s%s%s", text, others ? ":" : "", others ? preloads : "");
    text = list;
  } else if (strcmp(name, "TAILRACE_TAGS") == 0 && *own) {
    TagSet base, over;
    size_t at;
    char sentence[128];
    Writer ignored(sentence, sizeof sentence);
    if (parse_tags(text, base, at, ignored) && parse_tags(own, over, at, ignored) && merge_tags(base, over, joined))
      text = joined.c_str();
  }
  spank_setenv(spank, name, text, 1);
}

// Of a requeued job's script its try, which Slurm tells nobody before. (The core takes ranks from variables: those of
// MPI come before SLURM_PROCID, which is that of mpirun's daemon.)
template <size_t N>
void write_try(string_view restarts, char (&out)[N]) {
  Writer tags(out, N);
  if (!restarts.empty() && restarts != "0") tags << "try=" << restarts;
  tags.c_str();
}

// Before a task begins: its node and its number of tries are not known earlier, since each component of a heterogeneous
// job counts its own nodes.
void tell_begin(string_view restarts, string_view node) {
  char line[96];
  Writer w(line, sizeof line);
  w << kBegun << (restarts.empty() ? "0" : restarts) << ' ' << (node.empty() ? "0" : node) << ' ';
  w.number(static_cast<int64_t>(realtime_ns())) << '\n';
  g_plugin.process.tell(w.view());
}

void say_answer(string_view answer) {
  if (answer.size() > 1 && answer[0] == kSay) slurm_spank_log("tailrace: %s", answer.data() + 1);
}

void sum_up() {
  if (g_plugin.summed_up || !g_plugin.process.runs()) return;
  g_plugin.summed_up = true;
  char line[64];
  Writer w(line, sizeof line);
  w << kEnded;
  w.number(g_plugin.worst) << ' ';
  w.number(static_cast<int64_t>(realtime_ns())) << '\n';
  string_view answer;
  if (g_plugin.process.ask(w.view(), kEndTimeout_ms, answer)) {
    say_answer(answer);
  } else {
    slurm_info("tailrace: the step's records could not be sealed in time: `tailrace seal` on this node does that");
  }
}

// In a traced srun, sbatch or salloc: the job belongs to that run.
void pass_on_surrounding_run() {
  auto *active = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "tailrace_active"));
  auto *directory = reinterpret_cast<const char *(*)()>(dlsym(RTLD_DEFAULT, "tailrace_run_directory"));
  auto *setting = reinterpret_cast<const char *(*)(const char *)>(dlsym(RTLD_DEFAULT, "tailrace_setting"));
  const char *run = active && active() && directory ? directory() : nullptr;
  if (!run || !*run) return;
  const char *tags = setting ? setting("TAILRACE_TAGS") : nullptr;
  setenv(kRunVariable, run, 1);
  setenv(kTagsVariable, tags ? tags : "", 1);
  unsetenv(kJobVariable);
  unsetenv(kTaskVariable);
}

// Whether `sbatch --wait` was typed: only where it stands before any word without a dash, which may be the script.
bool waits_for_job() {
  FILE *f = fopen("/proc/self/cmdline", "re");
  if (!f) return false;
  char *word = nullptr;
  size_t room = 0;
  bool found = false;
  for (int i = 0; !found && getdelim(&word, &room, 0, f) > 0; ++i) {
    if (i == 0) continue;
    if (*word != '-') break;
    found = strcmp(word, "-W") == 0 || strcmp(word, "--wait") == 0;
  }
  free(word);
  fclose(f);
  return found;
}

// This process, when it submits, and whether who waits for it has waited for the job: not for one in the background,
// where by POSIX SIGINT is ignored.
void pass_on_submitter(bool waits) {
  struct sigaction interrupt;
  const bool background = sigaction(SIGINT, nullptr, &interrupt) == 0 && interrupt.sa_handler == SIG_IGN;
  char text[512];
  Writer w(text, sizeof text);
  w.number(getpid()) << ':';
  w << (waits && !background ? '1' : '0') << ':';
  w.number(static_cast<int64_t>(realtime_ns())) << ':' << HostName().view();
  setenv(kSubmitterVariable, w.c_str(), 1);
}

}  // namespace
}  // namespace tailrace::slurm

using namespace tailrace::slurm;

EXPORTED int slurm_spank_init(spank_t spank, int count, char *words[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_REMOTE && context != S_CTX_ALLOCATOR) return ESPANK_SUCCESS;
  tailrace::Writer fault(g_plugin.fault, sizeof g_plugin.fault);
  g_plugin.usable = parse_policy(count, words, g_plugin.policy, fault);
  fault.c_str();
  register_options(spank, g_plugin.options);
  return ESPANK_SUCCESS;
}

EXPORTED int slurm_spank_init_post_opt(spank_t, int, char *[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR) return ESPANK_SUCCESS;
  pass_on_surrounding_run();
  pass_on_submitter(context == S_CTX_LOCAL || waits_for_job());
  return ESPANK_SUCCESS;
}

EXPORTED int slurm_spank_user_init(spank_t spank, int, char *[]) {
  if (spank_context() != S_CTX_REMOTE) return ESPANK_SUCCESS;
  const uint32_t job = item(spank, S_JOB_ID, 0), step = item(spank, S_JOB_STEPID, SLURM_EXTERN_CONT);
  char **environment = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS || !is_wanted(job, step, environment))
    return ESPANK_SUCCESS;
  g_plugin.tasks = item(spank, S_JOB_LOCAL_TASK_COUNT, 1);
  start_process(spank, job, step, environment);
  return ESPANK_SUCCESS;
}

EXPORTED int slurm_spank_task_init(spank_t spank, int, char *[]) {
  if (g_plugin.settings.empty()) return ESPANK_SUCCESS;
  char own[64] = "", restarts[16] = "", node[16] = "";
  spank_getenv(spank, "SLURM_NODEID", node, sizeof node);
  if (item(spank, S_JOB_STEPID, 0) == SLURM_BATCH_SCRIPT) {
    spank_getenv(spank, "SLURM_RESTART_COUNT", restarts, sizeof restarts);
    write_try(restarts, own);
  }
  if (item(spank, S_TASK_ID, 0) == 0) tell_begin(restarts, node);
  const char *end = g_plugin.settings.data() + g_plugin.settings.size();
  for (const char *entry = g_plugin.settings.data(); entry < end && *entry; entry += strlen(entry) + 1)
    set_variable(spank, entry, own);
  return ESPANK_SUCCESS;
}

EXPORTED int slurm_spank_task_exit(spank_t spank, int, char *[]) {
  int status = 0;
  if (spank_get_item(spank, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS) {
    // A signal is worse than an exit code.
    const bool worse = WIFSIGNALED(status) ? !WIFSIGNALED(g_plugin.worst) : status > g_plugin.worst;
    if (worse && !(WIFSIGNALED(g_plugin.worst) && !WIFSIGNALED(status))) g_plugin.worst = status;
  }
  if (++g_plugin.ended >= g_plugin.tasks) sum_up();
  return ESPANK_SUCCESS;
}

EXPORTED int slurm_spank_exit(spank_t, int, char *[]) {
  if (spank_context() != S_CTX_REMOTE) return ESPANK_SUCCESS;
  sum_up();
  if (!g_plugin.process.finish(kEndTimeout_ms)) slurm_info("tailrace: the step's process still seals");
  return ESPANK_SUCCESS;
}
