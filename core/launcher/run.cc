// See run.h.
#include "run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "command.h"
#include "core_here.h"
#include "description.h"
#include "environment.h"
#include "fault.h"
#include "files.h"
#include "follower.h"
#include "manifest.h"
#include "name_key.h"
#include "run_directory.h"
#include "sampler.h"
#include "sealing.h"
#include "setting_faults.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

// Keeps the run directory open, and tells whether it still has its name. Another one in its place may be another
// user's, who may write to the directory above.
class Held {
 public:
  explicit Held(const std::string &directory)
      : directory_(directory), fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
    if (fd_.is_open()) ::fstat(fd_.get(), &held_);
  }

  bool is_there() const {
    if (!fd_.is_open()) return true;  // sealing says what is wrong with it
    struct stat found;
    if (::lstat(directory_.c_str(), &found) == 0) return found.st_dev == held_.st_dev && found.st_ino == held_.st_ino;
    if (errno != ENOENT) return true;
    // Renamed, unless it was removed (proc(5)).
    char target[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(fd_.get());
    const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
    return n > 0 && ends_with({target, static_cast<size_t>(n)}, " (deleted)");
  }

 private:
  std::string directory_;
  Descriptor fd_;
  struct stat held_ = {};
};

std::string moved_message(const std::string &run_dir) {
  return run_dir +
         " was renamed or replaced while the command ran, so that what was not written yet is not sealed: give it its "
         "name back and run `tailrace seal " +
         run_dir + "`";
}

// By systemd-logind (RemoveIPC), a batch system's epilog, a cleaner of temporary files. Processes that ended since have
// sealed what they had.
std::string removed_message(const std::string &journal_dir) {
  return "journals in " + journal_dir +
         " were removed while the command ran: what killed processes had not written yet is lost";
}

void finish(Summary &summary, const std::string &run_dir, const Environment &environment, SealerThread *sealer,
            const Sizes &before) {
  const std::string journal_dir = journal_directory(&environment);
  const SealAccount account = sealer != nullptr ? sealer->finish() : seal_journals(run_dir, journal_dir);
  summary.add_unrecorded(account.journals);
  if (summary.journals_removed && !summary.fault) summary.fault = removed_message(journal_dir);
  if (account.journals.failed != 0) {
    if (!summary.fault)
      summary.fault = unsealed_message(account.journals.failed, account.journals.failed_events, run_dir);
  } else {
    summary.alive = unsealed_processes(run_dir, journal_dir).size();
  }
  add_blocks(summary, run_dir, before);
  add_to_manifest(run_dir, trace_sizes(run_dir));
}

std::optional<std::string> real_path(const std::string &path) {
  const std::unique_ptr<char, void (*)(void *)> real(::realpath(path.c_str(), nullptr), ::free);
  return real != nullptr ? std::optional<std::string>(real.get()) : std::nullopt;
}

// Patterns of programs, those of relative paths from the working directory.
std::string from_here(const std::string &patterns) {
  std::string out;
  each_part(patterns, ':', [&](std::string_view one) {
    const bool is_relative = one.find('/') != std::string_view::npos && one[0] != '/' && one[0] != '*' && one[0] != '?';
    (out += out.empty() ? "" : ":") += is_relative ? absolute(std::string(one)) : std::string(one);
    return true;
  });
  return out;
}

// Without a run: the user did not choose its directory, so the command runs all the same.
int run_untraced(const RunOptions &options, const Installation &installation) {
  return run_command({options.command, Environment::of_this_process(), installation.ignored_here, nullptr});
}

}  // namespace

Traced run_traced(const std::vector<std::string> &command, const std::string &run_dir, const std::string &tags,
                  const Installation &installation) {
  Traced out = {0, {}};
  Summary &summary = out.summary;
  const Sizes before = whole_sizes(run_dir);
  Environment environment = Environment::of_this_process();
  const auto obstacle = find_program_obstacle(command[0]);
  if (obstacle) summary.fault = "not traced: " + obstacle->reason;
  // Forked while this process has one thread.
  std::unique_ptr<Following> following;
  bool is_asked_for = false;
  try {
    const Environment traced = task_environment(environment, library_path(installation.library), run_dir, tags);
    if (!is_traced() && wants_following(traced)) following = std::make_unique<Following>(run_dir, traced);
    is_asked_for = following && is_to_be_followed(command[0], traced);
    if (!obstacle || !obstacle->breaks) environment = traced;
  } catch (const Fault &fault) {
    summary.fault = std::string("not traced: ") + fault.what();
  }
  Command started = {command, environment, installation.ignored_here, nullptr};
  if (is_asked_for) {
    started.is_about_to_start = [&] {
      if (following->ask(merge_tags(setting_by(::getenv("TAILRACE_TAGS"), "TAILRACE_TAGS"), tags)))
        summary.fault.reset();
    };
  }
  // The I/O of a thread beside the program's would be missing in the trace of a traced launcher.
  std::unique_ptr<SealerThread> sealer;
  if (environment.get("TAILRACE_RUN") != nullptr && !is_traced())
    sealer = std::make_unique<SealerThread>(run_dir, journal_directory(&environment));
  bool is_there = true;
  std::unique_ptr<SamplerThread> sampler;
  if (const double rate = sample_rate(::getenv("TAILRACE_SAMPLE")); rate > 0 && sealer != nullptr)
    sampler =
        std::make_unique<SamplerThread>(run_dir, journal_directories(run_dir, journal_directory(&environment)), rate);
  {
    const Held held(run_dir);
    out.code = run_command(started, {run_dir, [&] { return held.is_there(); }, sealer.get(), &summary.command});
    is_there = held.is_there();
  }
  sampler.reset();
  following.reset();
  if (!is_there) {
    if (!summary.fault) summary.fault = moved_message(run_dir);
    return out;
  }
  try {
    finish(summary, run_dir, environment, sealer.get(), before);
  } catch (const std::exception &fault) {  // of any kind: what a trace contains does not cost the command's exit code
    if (!summary.fault) summary.fault = "the trace in " + run_dir + " is incomplete: " + fault.what();
  }
  return out;
}

Ended run(const RunOptions &options, const Installation &installation) {
  // As if the user had set it: it is one of the settings that a traced process gets from this environment.
  if (!options.detail.empty()) ::setenv("TAILRACE_DETAIL", options.detail.c_str(), 1);
  if (!options.unseen.empty()) ::setenv("TAILRACE_UNSEEN", options.unseen.c_str(), 1);
  if (!options.follow.empty()) ::setenv("TAILRACE_FOLLOW", options.follow.c_str(), 1);
  if (const char *follow = ::getenv("TAILRACE_FOLLOW")) ::setenv("TAILRACE_FOLLOW", from_here(follow).c_str(), 1);
  if (const auto fault = bad_setting()) throw Fault(Fault::Kind::kUsage, *fault);
  for (const std::string &words : mistyped_settings()) say(in_one_line(words));
  const auto surrounding = is_traced() ? surrounding_run() : std::nullopt;
  // Rather no command than one with its names in a run.
  if (name_hasher().is_on() && surrounding) check_name_key(*surrounding);
  if (surrounding && options.output && real_path(absolute(*options.output)) != surrounding)
    say("already traced into " + *surrounding + ": recording there, not in " + *options.output);
  const std::string wanted = surrounding      ? *surrounding
                             : options.output ? *options.output
                                              : default_run_directory(options.command[0]);
  std::string run_dir;
  try {
    run_dir = open_run_directory(wanted, {options.command, options.tags, installation.python_version});
  } catch (const Fault &fault) {
    if (options.output || fault.kind != Fault::Kind::kUsage) throw;
    say(std::string("not traced: ") + fault.what());
    return {run_untraced(options, installation), std::nullopt};
  }
  const Traced traced = run_traced(options.command, run_dir, options.tags, installation);
  if (traced.summary.fault) say(in_one_line(*traced.summary.fault));
  if (!options.quiet) say(end_words(traced.code) + describe(traced.summary) + "; " + run_dir);
  return {traced.code, surrounding ? std::nullopt : std::optional(run_dir)};
}

}  // namespace tailrace::launcher
