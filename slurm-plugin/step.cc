// tailrace-step: does in the user's name what a traced step needs, beside it (step_process.h). The plugin speaks to it
// by its standard input and output (words.h).
//
//   start            makes or joins the run, declares the step, answers with the settings of its tasks
//   B TRIES NODE NS  declares the step, on its first node
//   E STATUS NS      seals what dead processes have left, declares the end, answers with a line for the user
//   end of file      seals the rest, and ends; slurmstepd may have been killed
//
// Invariants: it has the user's rights from its first instruction on. It reads no file by a name that another user
// could have put there: the run is checked as `tailrace run` checks it. It ends by itself when slurmstepd does.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "declared.h"
#include "environment.h"
#include "fault.h"
#include "files.h"
#include "manifest.h"
#include "protocol.h"
#include "run_directory.h"
#include "sealing.h"
#include "step_facts.h"
#include "summary.h"
#include "words.h"

namespace tailrace::slurm {
namespace {

using launcher::Fault;

// Tasks may outlive a slurmstepd that was killed. What still runs then is sealed by the next who opens the run.
constexpr int kOrphansPatience_s = 30;
// So long a job may be ending before Slurm says how.
constexpr int kStatePatience_s = 120;
constexpr size_t kStateBytes = 64 * 1024;
// Their own I/O is Slurm's, not the workflow's; what they start on this node is not traced either.
constexpr const char *kManagers[] = {"srun",    "sbatch",   "salloc", "sattach", "sbcast", "sgather",
                                     "scancel", "scontrol", "squeue", "sacct",   "sinfo",  "sstat"};

void answer(char kind, const std::string &text) {
  std::string out(1, kind);
  out += text;
  out.append(2, '\0');
  for (size_t at = 0; at < out.size();) {
    const ssize_t n = ::write(STDOUT_FILENO, out.data() + at, out.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += static_cast<size_t>(n);
  }
}

std::string untraced_programs() {
  std::string list = variable("TAILRACE_UNTRACED");
  for (const char *name : kManagers) {
    const auto path = launcher::which(name);
    if (path && path->front() == '/') (list += list.empty() ? "" : ":") += *path;
  }
  return list;
}

class Step {
 public:
  explicit Step(StepFacts facts) : facts_(std::move(facts)) {}

  // Returns the settings of its tasks. Throws Fault.
  std::string begin() {
    const std::string wanted = facts_.run();
    if (wanted.empty()) throw Fault(Fault::Kind::kUsage, "no run directory is configured");
    if (facts_.known_run.empty() && facts_.word("asked").empty()) launcher::check_runs_folder(parent_of(wanted));
    const std::string library = launcher::library_path(facts_.word("library"));
    const std::string program = facts_.command.empty() ? "" : facts_.command[0];
    const auto obstacle = program.empty() ? std::nullopt : launcher::find_program_obstacle(program);
    if (obstacle && obstacle->breaks) throw Fault(Fault::Kind::kUsage, obstacle->reason);
    for (const auto &[name, value] : facts_.settings) ::setenv(name.c_str(), value.c_str(), 0);
    const std::string journals = launcher::journal_directory(nullptr);
    if (const std::string fault = launcher::journal_fault(journals);
        !fault.empty() && journals != launcher::default_journal_directory())
      throw Fault(Fault::Kind::kUsage, "the journal directory is " + journals + ": " + fault);
    run_ = launcher::join_run_directory(wanted, {described_command(), facts_.tags, ""});
    before_ = launcher::whole_sizes(run_);
    sealer_ = std::make_unique<launcher::SealerThread>(run_, journals);
    return settings(library);
  }

  // Once. `told`: TRIES NODE NS.
  void declare_begin(const char *told) {
    char *rest = nullptr;
    const auto tries = static_cast<int>(std::strtol(told, &rest, 10));
    facts_.is_first_node = std::strtol(rest, &rest, 10) == 0;
    if (is_declared_ || !facts_.is_first_node || facts_.is_declared_elsewhere) return;
    is_declared_ = true;
    if (facts_.is_script) facts_.tries = std::max(0, tries);
    declared_.begin(facts_, run_, std::strtoll(rest, nullptr, 10));
  }

  // Returns a line for the user; empty: there is nothing to say.
  std::string end(int status, int64_t ended_ns) {
    declared_.end(status, "", ended_ns);
    std::string line;
    try {
      seal();
      launcher::Summary summary;
      launcher::add_blocks(summary, run_, before_, "job=" + job_tag());
      summary.add_unrecorded(account_);
      launcher::add_to_manifest(run_, launcher::trace_sizes(run_));
      if (account_.failed != 0) line = launcher::unsealed_message(account_.failed, account_.failed_events, run_);
      const bool says = facts_.word("summary") != "no" && facts_.is_first_node && !facts_.in_traced_job;
      const bool lost = summary.lost.sum() != 0 || !summary.without_journal.all().empty();
      if (says || lost) {
        (line += line.empty() ? "" : "; ") += launcher::describe(summary) + "; " + run_;
        if (const std::string nodes = variable("SLURM_JOB_NUM_NODES"); nodes != "1" && !nodes.empty())
          line += " (what has been sealed by now on its " + nodes + " nodes)";
      }
    } catch (const std::exception &fault) {
      line = "the trace in " + run_ + " is incomplete: " + std::string(fault.what());
    }
    status_ = status;
    ended_ns_ = ended_ns;
    return launcher::in_one_line(line);
  }

  // Seals what ended after the last task.
  void seal_rest() {
    try {
      seal();
    } catch (const Fault &) {
      return;  // `tailrace seal` says why
    }
  }

  // When nobody waits any more: Slurm's answer may take its time.
  void finish() {
    if (status_ && tells_a_signal(*status_) && !facts_.in_traced_job) {
      std::string state = state_of_job();
      // Without an answer, the controller is busy.
      for (int i = 0; (state.empty() || state == "COMPLETING") && i < kStatePatience_s; ++i) {
        ::sleep(1);
        state = state_of_job();
      }
      if (!state.empty() && state != "COMPLETING") declared_.end(*status_, state, ended_ns_);
    }
    try {
      for (int i = 0; !status_ && i < kOrphansPatience_s; ++i) {
        if (launcher::unsealed_processes(run_, launcher::journal_directory(nullptr)).empty()) break;
        ::sleep(1);
        seal();
      }
    } catch (const Fault &) {
      return;  // `tailrace seal` says why
    }
  }

 private:
  // Slurm executes a copy of the script, under another name.
  std::vector<std::string> described_command() const {
    return facts_.is_script ? std::vector<std::string>{"sbatch", "--job-name", variable("SLURM_JOB_NAME")}
                            : facts_.command;
  }

  static std::string parent_of(const std::string &path) {
    const std::string whole = launcher::absolute(path);
    return whole.substr(0, std::max<size_t>(whole.rfind('/'), 1));
  }

  // Percent-encoded, as in the headers of blocks.
  std::string job_tag() const {
    const size_t at = (("," + facts_.tags).find(",job="));
    if (at == std::string::npos) return facts_.job;
    return facts_.tags.substr(at + 4, facts_.tags.find(',', at + 4) - at - 4);
  }

  void seal() {
    if (sealer_) {
      account_ = sealer_->finish().journals;
      sealer_.reset();
    } else {
      const SealedJournals more = launcher::seal_journals(run_, launcher::journal_directory(nullptr)).journals;
      account_.failed = more.failed;
      account_.failed_events = more.failed_events;
      for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) account_.unrecorded_lost[i] += more.unrecorded_lost[i];
    }
  }

  std::string settings(const std::string &library) {
    std::string out;
    const auto add = [&](const std::string &name, const std::string &value) { ((out += name) += "=" + value) += '\0'; };
    add("LD_PRELOAD", library);
    for (const auto &[name, value] : launcher::trace_settings(run_, facts_.tags)) {
      if (name != "TAILRACE_UNTRACED") add(name, value);
    }
    if (const std::string list = untraced_programs(); !list.empty()) add("TAILRACE_UNTRACED", list);
    if (facts_.is_script || !facts_.in_traced_job) {
      add(kRunVariable, run_);
      add(kAskedVariable, facts_.word("asked"));
      add(kJobVariable, facts_.id);
      add(kTaskVariable, facts_.task);
    }
    out.pop_back();
    return out;
  }

  // What Slurm says of a job whose task ended by a signal: canceled, out of time, or neither.
  std::string state_of_job() const {
    int ends[2];
    const auto scontrol = launcher::which("scontrol");
    if (!scontrol || ::pipe2(ends, O_CLOEXEC) != 0) return "";
    const launcher::Descriptor from(ends[0]);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    std::string words[] = {*scontrol, "-o", "show", "job", facts_.word("job")};
    char *pointers[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), words[4].data(), nullptr};
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, scontrol->c_str(), &files, nullptr, pointers, environ);
    posix_spawn_file_actions_destroy(&files);
    ::close(ends[1]);
    if (error != 0) return "";
    std::string text;
    char piece[4096];
    for (ssize_t n; (n = ::read(from.get(), piece, sizeof piece)) > 0 && text.size() < kStateBytes;)
      text.append(piece, static_cast<size_t>(n));
    ::waitpid(pid, nullptr, 0);
    const size_t at = text.find(" JobState=");
    return at == std::string::npos ? "" : text.substr(at + 10, text.find_first_of(" \n", at + 10) - at - 10);
  }

  StepFacts facts_;
  std::string run_;
  launcher::Sizes before_;
  DeclaredStep declared_;
  bool is_declared_ = false;
  std::unique_ptr<launcher::SealerThread> sealer_;
  SealedJournals account_;
  std::optional<int> status_;
  int64_t ended_ns_ = 0;
};

// Lines until the end of the file.
template <class Take>
void each_line(Take take) {
  std::string line;
  char c = 0;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    if (c != '\n') {
      line += c;
      continue;
    }
    take(line);
    line.clear();
  }
}

int run(int count, char **words) {
  std::unique_ptr<Step> step;
  try {
    step = std::make_unique<Step>(read_step(count, words));
    answer(kTraced, step->begin());
  } catch (const std::exception &fault) {
    answer(kUntraced, launcher::in_one_line(fault.what()));
    return 0;
  }
  each_line([&](const std::string &line) {
    if (!line.empty() && line[0] == kBegun) step->declare_begin(line.c_str() + 1);
    if (line.empty() || line[0] != kEnded) return;
    char *rest = nullptr;
    const int status = static_cast<int>(std::strtol(line.c_str() + 1, &rest, 10));
    const std::string said = step->end(status, std::strtoll(rest, nullptr, 10));
    answer(said.empty() ? kNothing : kSay, said);
  });
  step->seal_rest();
  ::close(STDOUT_FILENO);
  ::close(STDIN_FILENO);
  step->finish();
  return 0;
}

}  // namespace
}  // namespace tailrace::slurm

int main(int count, char **words) {
  // slurmstepd waits for its children, and at a step's end some of its process trackers kill them.
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);
  return tailrace::slurm::run(count, words);
}
