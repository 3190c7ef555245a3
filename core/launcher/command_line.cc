// See command_line.h. cli/run.py calls the same run() (core/native/launching.cc).
#include "command_line.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
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

// Variables by which Python has a part in it: completion, the store that a run is added to at its end, and the file
// of settings.
constexpr const char *kPythons[] = {"_TAILRACE_COMPLETE", "TAILRACE_STORE", "TAILRACE_CONFIG"};

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

int run_tagged(int count, char **arguments) {
  if (is_set(kPythons[0])) return kNotDone;
  const auto options = tag_options({arguments + 2, arguments + count});
  return options ? execute_tagged(*options) : kNotDone;
}

int run_traced_command(int count, char **arguments, const char *library) {
  if (std::any_of(std::begin(kPythons), std::end(kPythons), is_set)) return kNotDone;
  const auto options = run_options({arguments + 2, arguments + count});
  if (!options || !has_journals()) return kNotDone;
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

extern "C" __attribute__((visibility("default"))) tailrace::launcher::CommandLine tailrace_command_line;

int tailrace_command_line(int count, char **arguments, const char *library) {
  namespace launcher = tailrace::launcher;
  if (std::strcmp(arguments[1], "tag") == 0) return launcher::run_tagged(count, arguments);
  return launcher::run_traced_command(count, arguments, library);
}
