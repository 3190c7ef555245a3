// The environment of a traced program: LD_PRELOAD loads the core, TAILRACE_... variables configure it. A traced process
// does not see these variables and passes them to the processes it starts.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tailrace::launcher {

// NAME=VALUE, each name once.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}
  // This process's.
  static Environment of_this_process();

  const char *get(const char *name) const;
  void set(const std::string &name, const std::string &value);
  const std::vector<std::string> &entries() const { return entries_; }
  // For exec; valid as long as this is unchanged.
  std::vector<char *> pointers() const;

 private:
  std::vector<std::string> entries_;
};

// The core's library: that which TAILRACE_CORE_LIBRARY names, else `installed`. Throws Fault when it is missing, or
// when LD_PRELOAD can't contain its path.
std::string library_path(const std::string &installed);

// The TAILRACE_... variables that trace a process of this node into `run_dir` with `tags` (canonical).
std::vector<std::pair<std::string, std::string>> trace_settings(const std::string &run_dir, const std::string &tags);

// `base` with the core and the tags, which override its own key by key. Libraries that are preloaded already follow the
// core. run_dir: absolute; tags: canonical. Throws Fault when the merged tags break the rules.
Environment task_environment(const Environment &base, const std::string &library, const std::string &run_dir,
                             const std::string &tags);

// The settings that the user has chosen: set in this process's environment, and not specific to a run or a node.
std::vector<std::pair<std::string, std::string>> chosen_settings();

// The canonical form of `base` with the tags of `over`. Throws Fault.
std::string merge_tags(const std::string &base, const std::string &over);

// The node-local directory of the journals: TAILRACE_JOURNAL_DIR in the environment (null: this process's), or by the
// core of this process, or the default.
std::string journal_directory(const Environment *environment);
std::string default_journal_directory();
// The directories that may have this user's journals of the run on this node; the first is used where it can be.
std::vector<std::string> journal_directories(const std::string &run_dir, const std::string &journal_dir);
// Why no journal can be kept in the directory; empty when one can, or could with more space.
std::string journal_fault(const std::string &journal_dir);

// The number of seccomp filters of this process; before Linux 5.9 the mode, 0 or 2; none where /proc is silent.
std::optional<int> seccomp_filters();

// The path that a shell would run; none where there is no such program.
std::optional<std::string> which(const std::string &command);

// Why a program can't be traced.
struct ProgramObstacle {
  std::string word;  // as in the trace (docs/trace-format.md, "Programs that are not traced")
  std::string program;
  std::string reason;  // a sentence that begins with the program's path
  bool breaks;         // it fails to start, or complains, with the core in LD_PRELOAD
};
// None where `command` (found by PATH) can be traced, or can't be read.
std::optional<ProgramObstacle> find_program_obstacle(const std::string &command);
// Whether the user wants it followed from outside, by the settings in `traced`.
bool is_to_be_followed(const std::string &command, const Environment &traced);
// Whether he wants any program followed.
bool wants_following(const Environment &traced);

}  // namespace tailrace::launcher
