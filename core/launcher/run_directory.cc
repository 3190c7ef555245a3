// See run_directory.h.
#include "run_directory.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <set>

#include "base/clock.h"
#include "environment.h"
#include "fault.h"
#include "files.h"
#include "manifest.h"
#include "name_key.h"
#include "sealing.h"
#include "summary.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

constexpr size_t kProgramBytes = 40;

[[noreturn]] void refuse(const std::string &sentence) { throw Fault(Fault::Kind::kUsage, sentence); }

[[noreturn]] void not_a_directory(const std::string &path) {
  refuse(path + " is not a directory: give a new or empty one, or a run");
}

bool is_directory(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Makes the directory, and those above it that are missing, for this user alone, whatever the umask.
void make_directories(const std::string &path) {
  int error = ::mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
  const size_t slash = path.rfind('/');
  if (error == ENOENT && slash != std::string::npos && slash > 0) {
    make_directories(path.substr(0, slash));
    error = ::mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
  }
  if (error == EEXIST && !is_directory(path)) not_a_directory(path);
  if (error != 0 && error != EEXIST) fail_with(error);
}

// Refuses a directory in which another user may replace files, or a link to one.
void check_owner(const std::string &directory) {
  struct stat status;
  if (::lstat(directory.c_str(), &status) != 0) fail_with(errno);
  if (!S_ISDIR(status.st_mode)) not_a_directory(directory);
  if (status.st_uid != ::geteuid()) {
    refuse(directory + " belongs to user " + std::to_string(status.st_uid) +
           ": give a new directory, or one of your own");
  }
  // A group of the user's own has no other member (useradd(8), USERGROUPS_ENAB).
  const bool own_group = status.st_gid == ::getegid() && ::getegid() == ::geteuid();
  if ((status.st_mode & (S_IWOTH | (own_group ? 0U : S_IWGRP))) != 0) {
    refuse("other users may write to " + directory + ": give another one, or `chmod go-w " + directory + "`");
  }
}

// Whether all of a file's processes began before `ns`.
bool is_older(const std::vector<ProcessName> &processes, int64_t ns) {
  return !processes.empty() && std::all_of(processes.begin(), processes.end(), [&](const ProcessName &process) {
    char *end = nullptr;
    const long long start = std::strtoll(process.start.c_str(), &end, 16);
    return end != process.start.c_str() && *end == 0 && start < ns;
  });
}

// Drops journals on this node of an earlier, killed run of the same path, whose directory was removed. Journals are
// found by the run's path, so they would count as the new run's, which began after `began`, ns.
void drop_leftovers(const std::string &directory, int64_t began) {
  try {
    seal_journals(directory, journal_directory(nullptr));
  } catch (const Fault &fault) {
    static_cast<void>(fault);  // if they can't be sealed now, they can't be later
  }
  std::set<ProcessName> dropped;
  for (const auto &[path, size] : trace_sizes(directory)) {
    try {
      const auto processes = processes_in(path);
      if (!is_older(processes, began)) continue;
      ::unlink(path.c_str());
      dropped.insert(processes.begin(), processes.end());
    } catch (const Fault &) {
      continue;  // of no process of ours
    }
  }
  if (dropped.empty()) return;
  remove_manifest(directory);
  const std::string processes = dropped.size() == 1 ? "a process" : std::to_string(dropped.size()) + " processes";
  say("dropped the unsealed events of " + processes + " of an earlier run in " + directory + ", which was removed");
}

std::string resolved(const std::string &path) {
  const std::unique_ptr<char, void (*)(void *)> real(::realpath(path.c_str(), nullptr), ::free);
  if (real == nullptr) fail_with(errno);
  return real.get();
}

bool is_described(const std::string &directory) {
  struct stat status;
  return ::lstat((directory + "/" + kDescription).c_str(), &status) == 0;
}

void prepare(const std::string &directory, const Describing &run, bool joins) {
  check_owner(directory);
  const auto began = static_cast<int64_t>(realtime_ns());
  // In this order: a run that starts at the same time creates trace/ first.
  if (!names_in(directory).empty() && !is_run_directory(directory))
    refuse(directory + " is neither empty nor a run directory: give a new or an empty one");
  const bool is_new = !is_run_directory(directory);
  for (const char *name : {"trace", "declared"}) {
    const std::string folder = directory + "/" + name;
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail_with(errno);
  }
  for (const char *name : {"trace", "declared", "accounts", "manifest", "hosts"}) {
    struct stat status;
    const std::string folder = directory + "/" + name;
    if (::lstat(folder.c_str(), &status) == 0) check_owner(folder);
  }
  if (is_new) drop_leftovers(directory, began);
  // Of two that join a new run at once, one describes, and the other finds that out.
  joins &&is_described(directory) ? describe_host(directory, run) : describe_run(directory, run);
}

std::string open_directory(const std::string &path, const Describing &run, bool joins) {
  std::string directory = path;
  try {
    directory = absolute(path);
    make_directories(directory);
    directory = resolved(directory);
    prepare(directory, run, joins);
  } catch (const Fault &fault) {
    if (fault.kind != Fault::Kind::kSystem) throw;
    refuse("can't use " + directory + " as a run directory: " + fault.what() + ": give one that you can write to");
  }
  return directory;
}

}  // namespace

bool is_run_directory(const std::string &directory) {
  struct stat status;
  const std::string description = directory + "/" + kDescription;
  return (::stat(description.c_str(), &status) == 0 && S_ISREG(status.st_mode)) || is_directory(directory + "/trace");
}

std::string open_run_directory(const std::string &path, const Describing &run) {
  return open_directory(path, run, false);
}

std::string join_run_directory(const std::string &path, const Describing &run) {
  return open_directory(path, run, true);
}

// A directory for runs that nobody named may be another user's trap; root's is a site's choice.
void check_runs_folder(const std::string &parent) {
  struct stat found, target;
  if (::lstat(parent.c_str(), &found) != 0 || ::stat(parent.c_str(), &target) != 0) return;  // it is made
  for (const struct stat &status : {found, target}) {
    if (status.st_uid != ::geteuid() && status.st_uid != 0) {
      refuse(parent + " belongs to user " + std::to_string(status.st_uid) + ": give the run's directory with -o");
    }
  }
  if ((target.st_mode & S_IWOTH) != 0 && (target.st_mode & S_ISVTX) == 0) {
    refuse("other users may replace what is in " + parent + ": give the run's directory with -o");
  }
}

std::string default_run_directory(const std::string &program, const std::string &parent) {
  check_runs_folder(parent);
  const std::string name = name_hasher().is_on() ? "run" : file_word(last_part(program), kProgramBytes);
  const auto now = static_cast<time_t>(realtime_ns() / 1'000'000'000);
  struct tm local;
  char stamp[32];
  ::localtime_r(&now, &local);
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  const std::string stem = parent + "/" + stamp + "-" + name;
  std::string candidate = stem;
  struct stat status;
  for (int number = 2; ::stat(candidate.c_str(), &status) == 0; ++number)
    candidate = stem + "-" + std::to_string(number);
  return candidate;
}

}  // namespace tailrace::launcher
