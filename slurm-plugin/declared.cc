// See declared.h.
#include "declared.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "fault.h"
#include "files.h"
#include "protocol.h"
#include "words.h"

namespace tailrace::slurm {
namespace {

using launcher::append_json;

// Of a run with very many jobs, no more is read for one job's dependencies.
constexpr size_t kMostDeclaredBytes = 64 << 20;

void add(std::string &line, const char *key, std::string_view text) {
  append_json(((line += ", \"") += key) += "\": ", text);
}
void add(std::string &line, const char *key, int64_t number) {
  (((line += ", \"") += key) += "\": ") += std::to_string(number);
}

std::vector<std::string> split(const std::string &text, const char *separators) {
  std::vector<std::string> parts;
  for (size_t at = text.find_first_not_of(separators); at != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(separators, end);
  }
  return parts;
}

// The text of a key of a line that this file wrote.
std::string text_in(const std::string &line, const char *key) {
  const std::string mark = std::string("\"") + key + "\": \"";
  const size_t at = line.find(mark), from = at + mark.size();
  return at == std::string::npos ? "" : line.substr(from, line.find('"', from) - from);
}

// The tasks of a job in this run that are no parts of another: its script, or its steps where that isn't traced. `12_*`
// is every task of an array.
std::set<std::string> tasks_of(const std::string &job, const std::string &run_dir) {
  std::set<std::string> found;
  const bool all = launcher::ends_with(job, "_*");
  const std::string plain = all ? job.substr(0, job.size() - 2) : job;
  size_t left = kMostDeclaredBytes;
  const std::string folder = run_dir + "/declared";
  for (const std::string &name : launcher::names_in(folder)) {
    if (name.compare(0, 6, "slurm-") != 0) continue;
    const std::string text = launcher::read_regular(folder + "/" + name, left);
    left -= std::min(left, text.size());
    for (const std::string &line : split(text, "\n")) {
      if (line.find("{\"type\": \"task\"") != 0 || line.find("\"parent\": ") != std::string::npos) continue;
      const std::string owner = text_in(line, "job");
      if (owner == plain || owner.compare(0, plain.size() + 1, plain + "_") == 0) found.insert(text_in(line, "task"));
    }
  }
  return found;
}

// SLURM_JOB_DEPENDENCY, "afterok:12:13,afterany:14_*+5?singleton", as a list of JSON.
std::string dependencies(const std::string &given, const std::string &run_dir) {
  std::string list;
  for (const std::string &one : split(given, ",?")) {
    const std::vector<std::string> parts = split(one, ":");
    if (parts.size() < 2 || parts[0].compare(0, 5, "after") != 0) continue;
    for (size_t i = 1; i < parts.size(); ++i) {
      // Slurm may add what has become of it, "12(unfulfilled)", and a user minutes, "12+5".
      const std::string job = parts[i].substr(0, parts[i].find_first_of("(+"));
      std::set<std::string> tasks;
      try {
        tasks = tasks_of(job, run_dir);
      } catch (const launcher::Fault &) {
        tasks.clear();
      }
      if (tasks.empty()) tasks.insert(job.substr(0, job.find("_*")));
      for (const std::string &task : tasks) {
        list += list.empty() ? "[" : ", ";
        append_json(list += "{\"task\": ", task);
        append_json(list += ", \"via\": ", parts[0]);
        list += "}";
      }
    }
  }
  return list.empty() ? "[]" : list + "]";
}

// PID:WAITS:NS:HOST. `made`: when it was submitted; 0 where it is not known.
std::string submitter(const StepFacts &facts, int64_t &made) {
  const std::vector<std::string> parts = split(variable(kSubmitterVariable), ":");
  made = parts.size() == 4 ? std::atoll(parts[2].c_str()) : 0;
  if (parts.size() != 4 || (facts.in_traced_job && facts.is_script)) return "";
  std::string out = "{\"host\": ";
  append_json(out, parts[3]);
  return out + ", \"pid\": " + std::to_string(std::atoi(parts[0].c_str())) +
         ", \"waits\": " + (parts[1] == "1" ? "true" : "false") + "}";
}

}  // namespace

void DeclaredStep::append(const std::string &line) {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  // A line that a full disk cuts short is counted by its reader.
  const ssize_t ignored = ::write(fd, line.data(), line.size());
  static_cast<void>(ignored);
  ::close(fd);
}

void DeclaredStep::begin(const StepFacts &facts, const std::string &run_dir, int64_t now) {
  const std::string folder = run_dir + "/declared";
  ::mkdir(folder.c_str(), 0700);
  path_ = folder + "/slurm-" + launcher::process_stem(::getpid(), now) + ".jsonl";
  add(key_, "workflow", facts.workflow);
  add(key_, "task", facts.task);
  try_ = facts.tries;
  began_ns_ = now;
  std::string lines = "{\"type\": \"workflow\"";
  add(lines, "workflow", facts.workflow);
  add(lines, "manager", "slurm");
  add(lines, "version", facts.word("slurm"));
  add(lines, "t_ns", now);
  add(lines += ", \"config\": {\"level\": 0", "cluster", variable("SLURM_CLUSTER_NAME"));
  lines += "}}\n{\"type\": \"task\"" + key_;
  add(lines, "stage", facts.stage);
  add(lines, "kind", facts.in_traced_job ? "step" : "job");
  add(lines, "name", variable("SLURM_JOB_NAME"));
  add(lines, "executor", variable("SLURM_JOB_PARTITION"));
  add(lines, "job", facts.job);
  if (!facts.parent.empty()) add(lines, "parent", facts.parent);
  // A step waits for nothing but its job.
  lines += ", \"deps\": " + (facts.in_traced_job ? "[]" : dependencies(variable("SLURM_JOB_DEPENDENCY"), run_dir));
  lines += ", \"inputs\": [], \"outputs\": []";
  int64_t submitted = 0;
  const std::string by = submitter(facts, submitted);
  if (submitted != 0 && submitted <= now) add(lines, "t_submit_ns", submitted);
  add(lines, "t_start_ns", now);
  add(lines, "user", static_cast<int64_t>(::getuid()));
  if (!by.empty()) lines += ", \"submitter\": " + by;
  lines += "}\n{\"type\": \"try\"" + key_;
  add(lines, "try", int64_t{try_});
  add(lines, "t_launch_ns", now);
  append(lines + "}\n");
}

bool tells_a_signal(int wait_status) {
  const int code = WEXITSTATUS(wait_status);
  return WIFSIGNALED(wait_status) || (code > 128 && code <= 128 + SIGRTMAX);
}

void DeclaredStep::end(int wait_status, const std::string &state, int64_t ended_ns) {
  if (path_.empty()) return;
  const bool killed = WIFSIGNALED(wait_status);
  const int code = killed ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  std::string status = killed ? "killed" : code != 0 ? "failed" : "done";
  if (state == "CANCELLED" || state == "PREEMPTED") status = "canceled";
  if (state == "TIMEOUT" || state == "DEADLINE") status = "timeout";
  const bool again = state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD";
  // Slurm's signal reaches the processes one by one: a shell may see its command's end and exit before its own comes.
  if (again && tells_a_signal(wait_status)) status = "killed";
  std::string line = std::string(again ? "{\"type\": \"try\"" : "{\"type\": \"end\"") + key_;
  if (again) {
    add(line, "try", int64_t{try_});
    add(line, "t_launch_ns", began_ns_);
  } else {
    add(line, "tries", int64_t{try_} + 1);
  }
  add(line, "t_end_ns", ended_ns);
  add(line, "status", status);
  if (killed || code != 0) add(line, "error", (killed ? "signal " : "exit code ") + std::to_string(code));
  if (!state.empty()) add(line, "result", state);
  append(line + "}\n");
}

}  // namespace tailrace::slurm
