// The `tailrace` command: does `tailrace run` and `tailrace tag` itself, within milliseconds, and leaves everything else
// to the Python program beside it (tailrace-python), by exec and before anything was done: other subcommands, help,
// completion, and whatever is wrong with the options, so that their words and rules have one place, cli/.
//
// cli/run.py calls the same run() (core/native/launching.cc).
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "environment.h"
#include "fault.h"
#include "files.h"
#include "options.h"
#include "run.h"
#include "tag.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

constexpr const char kPython[] = "tailrace-python";
// Variables by which Python has a part in it: completion, the store that a run is added to at its end, and the file
// of settings.
constexpr const char *kPythons[] = {"_TAILRACE_COMPLETE", "TAILRACE_STORE", "TAILRACE_CONFIG"};

// The directory of this file, wherever a link to it is.
std::string own_directory() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string_view whole(path, static_cast<size_t>(n > 0 ? n : 0));
  const size_t slash = whole.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(whole.substr(0, slash));
}

bool is_file(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// The folders of Python's versions in a prefix: that of this build, as everything in a wheel is, or all that there are where
// the wheel is for the stable ABI.
std::vector<std::string> python_folders(const std::string &lib) {
  if (*TAILRACE_PYTHON_FOLDER != 0) return {lib + "/" TAILRACE_PYTHON_FOLDER};
  std::vector<std::string> folders;
  DIR *directory = ::opendir(lib.c_str());
  if (directory == nullptr) return folders;
  while (const dirent *entry = ::readdir(directory)) {
    if (std::strncmp(entry->d_name, "python3.", 8) == 0) folders.push_back(lib + "/" + entry->d_name);
  }
  ::closedir(directory);
  return folders;
}

// The core's library in the installation that this command belongs to: `bin` lies beside the folders of a prefix. Empty where
// it is elsewhere, or where several versions of Python have one: tailrace-python knows its own.
std::string installed_library(const std::string &bin) {
  constexpr const char *kLibrary = "/tailrace/lib/libtailrace.so";
  constexpr const char *kPlain = "/" TAILRACE_LIBRARY_FOLDER "/libtailrace.so";
  const size_t slash = bin.rfind('/');
  if (slash == std::string::npos) return "";
  const std::string prefix = bin.substr(0, slash);
  std::string found;
  for (const char *lib : {"/lib", "/lib64"}) {
    for (const std::string &folder : python_folders(prefix + lib)) {
      for (const char *packages : {"/site-packages", "/dist-packages"}) {
        std::string path = folder + packages + kLibrary;
        if (!is_file(path)) continue;
        if (*TAILRACE_PYTHON_FOLDER != 0) return path;
        if (!found.empty() && std::strcmp(lib, "/lib") == 0) return "";
        if (found.empty()) found = path;
      }
    }
  }
  for (const char *path : {kLibrary, kPlain}) {
    if (found.empty() && is_file(prefix + path)) found = prefix + path;
  }
  return found;
}

[[noreturn]] void hand_over(const std::string &bin, char **arguments) {
  const std::string program = bin + "/" + kPython;
  if (!bin.empty()) ::execv(program.c_str(), arguments);
  say("only `tailrace run` and `tailrace tag` work without tailrace's Python part (" + program + ": " +
      std::strerror(errno) + "): pip install tailrace");
  ::_exit(1);
}

bool is_set(const char *variable) {
  const char *value = std::getenv(variable);
  return value != nullptr && *value != 0;
}

// A chosen directory that can't have journals is refused by cli/run.py.
bool has_journals() {
  const std::string chosen = journal_directory(nullptr);
  return chosen == default_journal_directory() || journal_fault(chosen).empty();
}

// Ignores what a closed pipe and a full quota would end us by; the command has them as our caller had.
std::vector<int> ignore_signals() {
  std::vector<int> ignored;
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    if (::signal(number, SIG_IGN) == SIG_DFL) ignored.push_back(number);
  }
  return ignored;
}

int run_or_hand_over(int count, char **arguments) {
  const std::string bin = own_directory();
  if (count > 2 && std::strcmp(arguments[1], "tag") == 0 && !is_set(kPythons[0])) {
    if (const auto options = tag_options({arguments + 2, arguments + count})) return execute_tagged(*options);
  }
  const bool is_run = count > 2 && std::strcmp(arguments[1], "run") == 0 &&
                      std::none_of(std::begin(kPythons), std::end(kPythons), is_set);
  std::optional<RunOptions> options;
  const std::string library = is_run ? installed_library(bin) : "";
  if (!library.empty()) options = run_options({arguments + 2, arguments + count});
  if (!options || !has_journals()) hand_over(bin, arguments);
  if (::fcntl(STDERR_FILENO, F_GETFD) < 0) say_nothing();
  try {
    return run(*options, {library, "", ignore_signals()}).code;
  } catch (const Fault &fault) {
    say(in_one_line(fault.what()));
    const bool usage = fault.kind == Fault::Kind::kUsage || fault.kind == Fault::Kind::kTag;
    return usage ? 2 : 1;
  } catch (const std::exception &error) {
    say(in_one_line(error.what()));
    return 1;
  }
}

}  // namespace
}  // namespace tailrace::launcher

int main(int count, char **arguments) { return tailrace::launcher::run_or_hand_over(count, arguments); }
