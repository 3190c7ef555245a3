// The `tailrace` command: runs `tailrace run` itself, within milliseconds, and leaves everything else to the Python
// program beside it (tailrace-python), by exec and before anything was done: other subcommands, help, completion, and
// whatever is wrong with the options, so that their words and rules have one place, cli/run.py.
//
// That one calls the same run() (core/native/launching.cc).
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
#include "format/detail.h"
#include "format/tags.h"
#include "run.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

constexpr const char kPython[] = "tailrace-python";
// Variables by which Python has a part in it: completion, and the store that a run is added to at its end.
constexpr const char *kPythons[] = {"_TAILRACE_COMPLETE", "TAILRACE_STORE"};

// The directory of this file, wherever a link to it is.
std::string own_directory() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string_view whole(path, static_cast<size_t>(n > 0 ? n : 0));
  const size_t slash = whole.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(whole.substr(0, slash));
}

// The core's library in the installation that this command belongs to: `bin` lies beside the folders of a prefix. Its
// Python's version is that of this build, as everything in a wheel is. Empty where it is elsewhere.
std::string installed_library(const std::string &bin) {
  const size_t slash = bin.rfind('/');
  if (slash == std::string::npos) return "";
  const std::string prefix = bin.substr(0, slash);
  for (const char *folder :
       {"/lib/" TAILRACE_PYTHON_FOLDER "/site-packages", "/lib64/" TAILRACE_PYTHON_FOLDER "/site-packages",
        "/lib/" TAILRACE_PYTHON_FOLDER "/dist-packages", ""}) {
    struct stat status;
    const std::string path = prefix + folder + "/tailrace/lib/libtailrace.so";
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) return path;
  }
  return "";
}

[[noreturn]] void hand_over(const std::string &bin, char **arguments) {
  const std::string program = bin + "/" + kPython;
  if (!bin.empty()) ::execv(program.c_str(), arguments);
  say("the installation of tailrace is incomplete (" + program + ": " + std::strerror(errno) +
      "): install it again with pip");
  ::_exit(1);
}

// The options of `run`, in the spellings that are taken here. None where something is left to cli/run.py.
class Options {
 public:
  explicit Options(std::vector<std::string_view> words) : words_(std::move(words)) {}

  std::optional<RunOptions> parse() {
    while (at_ < words_.size() && words_[at_].size() > 1 && words_[at_][0] == '-') {
      if (words_[at_] == "--") {
        ++at_;
        break;
      }
      if (!take()) return std::nullopt;
    }
    for (; at_ < words_.size(); ++at_) out_.command.emplace_back(words_[at_]);
    if (out_.command.empty() || out_.command[0] == "-" || !check_tags()) return std::nullopt;
    return out_;
  }

 private:
  bool take() {
    if (words_[at_] == "-q" || words_[at_] == "--quiet") {
      ++at_;
      return out_.quiet = true;
    }
    if (const auto output = value("-o", "--output")) {
      out_.output = std::string(*output);
      // Python refuses a path that is no UTF-8, and knows whose home "~" is.
      return !output->empty() && (*output)[0] != '~' && is_utf8(*output);
    }
    if (const auto detail = value("", "--detail")) {
      Detail parsed;
      out_.detail = std::string(*detail);
      return parse_detail(*detail, parsed);
    }
    if (const auto tag = value("-t", "--tag")) {
      const size_t equals = tag->find('=');
      if (equals == std::string_view::npos || !is_utf8(*tag)) return false;
      add_tag(tag->substr(0, equals), tag->substr(equals + 1));
      return true;
    }
    return false;
  }

  // The value of an option at this place: `-o VALUE`, `-oVALUE`, `--output VALUE`, `--output=VALUE`.
  std::optional<std::string_view> value(std::string_view letter, std::string_view name) {
    const std::string_view word = words_[at_];
    if (!letter.empty() && word.size() > letter.size() && starts_with(word, letter))
      return ++at_, word.substr(letter.size());
    if (word.size() > name.size() && starts_with(word, name) && word[name.size()] == '=')
      return ++at_, word.substr(name.size() + 1);
    if ((word != letter && word != name) || at_ + 1 == words_.size()) return std::nullopt;
    at_ += 2;
    return words_[at_ - 1];
  }

  // The last one counts for a repeated key.
  void add_tag(std::string_view key, std::string_view text) {
    for (auto &tag : tags_) {
      if (tag.first == key) {
        tag.second = text;
        return;
      }
    }
    tags_.emplace_back(key, text);
  }

  bool check_tags() {
    std::string joined;
    for (const auto &[key, text] : tags_) {
      std::vector<char> room(3 * (key.size() + text.size()) + 2);
      Writer w(room.data(), room.size());
      quote_tag_text(key, w);
      w << '=';
      quote_tag_text(text, w);
      (joined += joined.empty() ? "" : ",") += w.view();
    }
    try {
      out_.tags = merge_tags("", joined);
    } catch (const Fault &) {
      return false;
    }
    return true;
  }

  std::vector<std::string_view> words_;
  size_t at_ = 0;
  std::vector<std::pair<std::string_view, std::string_view>> tags_;
  RunOptions out_;
};

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
  const bool is_run = count > 2 && std::strcmp(arguments[1], "run") == 0 &&
                      std::none_of(std::begin(kPythons), std::end(kPythons), is_set);
  std::optional<RunOptions> options;
  const std::string library = is_run ? installed_library(bin) : "";
  if (!library.empty()) options = Options({arguments + 2, arguments + count}).parse();
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
