// See environment.h.
#include "environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "causes.h"
#include "core_here.h"
#include "description.h"
#include "fault.h"
#include "files.h"
#include "format/follow_request.h"
#include "format/journal.h"
#include "format/journal_place.h"
#include "format/program.h"
#include "format/settings.h"
#include "format/tags.h"

namespace tailrace::launcher {
namespace {

constexpr const char kLibrary[] = "libtailrace.so";
constexpr const char kKernelClock[] = "monotonic";
constexpr const char kWhitespace[] = " \t\n\r\f\v";
// What a shell searches without PATH.
constexpr const char kDefaultPath[] = "/bin:/usr/bin";

bool is_file(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_of_a_run(string_view name) {
  return name == "TAILRACE_RUN" || name == "TAILRACE_TAGS" || name == "TAILRACE_CLOCK" || name == "TAILRACE_PROCESS" ||
         name == "TAILRACE_JOURNAL_DEVICE" || name == "TAILRACE_MANAGED_TAGS";
}

std::string clock_reference() {
  char text[96];
  Writer w(text, sizeof text);
  write_clock_reference(w);
  return std::string(w.view());
}

// The elements of LD_PRELOAD without `library`, each behind a colon.
std::string other_preloads(std::string_view preload, const std::string &library) {
  const std::string separators = std::string(":") + kWhitespace;
  std::string out;
  for (size_t at = preload.find_first_not_of(separators); at != std::string_view::npos;) {
    const size_t end = std::min(preload.find_first_of(separators, at), preload.size());
    const std::string_view element = preload.substr(at, end - at);
    if (element != library) (out += ':') += element;
    at = preload.find_first_not_of(separators, end);
  }
  return out;
}

}  // namespace

Environment Environment::of_this_process() {
  Environment out;
  for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char *equals = std::strchr(*entry, '=');
    if (equals != nullptr && out.get(std::string(*entry, static_cast<size_t>(equals - *entry)).c_str()) == nullptr)
      out.entries_.emplace_back(*entry);
  }
  return out;
}

const char *Environment::get(const char *name) const {
  const size_t n = std::strlen(name);
  for (const std::string &entry : entries_) {
    if (entry.size() > n && entry[n] == '=' && entry.compare(0, n, name) == 0) return entry.c_str() + n + 1;
  }
  return nullptr;
}

void Environment::set(const std::string &name, const std::string &value) {
  const std::string entry = name + "=" + value;
  for (std::string &known : entries_) {
    if (known.size() > name.size() && known[name.size()] == '=' && known.compare(0, name.size(), name) == 0) {
      known = entry;
      return;
    }
  }
  entries_.push_back(entry);
}

std::vector<char *> Environment::pointers() const {
  std::vector<char *> out;
  for (const std::string &entry : entries_) out.push_back(const_cast<char *>(entry.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string library_path(const std::string &installed) {
  const char *chosen = std::getenv("TAILRACE_CORE_LIBRARY");
  const bool is_chosen = chosen != nullptr && *chosen != 0;
  const std::string path = is_chosen ? chosen : installed;
  if (is_chosen && (path[0] != '/' || last_part(path) != kLibrary || !is_file(path))) {
    throw Fault(Fault::Kind::kCore,
                "TAILRACE_CORE_LIBRARY is " + path + ": give the absolute path of a " + kLibrary + ", or unset it");
  }
  if (!is_file(path)) {
    throw Fault(Fault::Kind::kCore,
                path + " is missing: tailrace was installed without its core; install it again with pip");
  }
  if (path.find_first_of(" :\t\n$") != std::string::npos) {
    throw Fault(Fault::Kind::kCore,
                "LD_PRELOAD can't contain " + path + ": install tailrace under a path without blanks, ':' and '$'");
  }
  return path;
}

std::string merge_tags(const std::string &base, const std::string &over) {
  const auto parsed = [](const std::string &text, TagSet &set, TagsOf of) {
    size_t at;
    char room[512];
    Writer message(room, sizeof room);
    if (!parse_tags(text, set, at, message, of)) throw Fault(Fault::Kind::kTag, std::string(message.view()));
  };
  TagSet a, b, both;
  parsed(base, a, TagsOf::kCore);  // of a process that may be in a region
  parsed(over, b, TagsOf::kUser);
  std::vector<char> room(2 * kMaxTagsBytes);
  Writer out(room.data(), room.size());
  if (!tailrace::merge_tags(a, b, out)) {
    throw Fault(Fault::Kind::kTag, "together the tags are more than 64 or longer than 8192 bytes");
  }
  const std::string merged(out.view());
  parsed(merged, both, TagsOf::kCore);
  return merged;
}

Environment task_environment(const Environment &base, const std::string &library, const std::string &run_dir,
                             const std::string &tags) {
  // A traced process has its tags in the core, not in its environment.
  const std::string merged = merge_tags(setting_by(base.get("TAILRACE_TAGS"), "TAILRACE_TAGS"), tags);
  const char *preload = base.get("LD_PRELOAD");
  Environment out = base;
  out.set("LD_PRELOAD", library + other_preloads(preload != nullptr ? preload : "", library));
  for (const auto &[name, value] : trace_settings(run_dir, merged)) out.set(name, value);
  return out;
}

std::vector<std::pair<std::string, std::string>> trace_settings(const std::string &run_dir, const std::string &tags) {
  check_name_key(run_dir);  // the key is a setting then
  auto settings = chosen_settings();
  settings.emplace_back("TAILRACE_RUN", run_dir);
  // One clock reference for all processes of this node: one pair of clock readings. It is not valid elsewhere.
  const bool is_kernels = setting_by(std::getenv("TAILRACE_CLOCK"), "TAILRACE_CLOCK") == kKernelClock;
  settings.emplace_back("TAILRACE_CLOCK", is_kernels ? kKernelClock : clock_reference());
  char device[128];
  Writer w(device, sizeof device);
  int64_t bytes_read = 0;
  if (write_journal_device(w, bytes_read)) settings.emplace_back("TAILRACE_JOURNAL_DEVICE", w.c_str());
  if (!tags.empty()) settings.emplace_back("TAILRACE_TAGS", tags);
  return settings;
}

std::vector<std::pair<std::string, std::string>> chosen_settings() {
  std::vector<std::pair<std::string, std::string>> chosen;
  for (const SettingRow &row : kSettings) {
    const std::string name(row.name);
    const char *variable = std::getenv(name.c_str());
    const bool is_kernel_clock =
        name == "TAILRACE_CLOCK" && variable != nullptr && variable == string_view(kKernelClock);
    if (is_of_a_run(name) && !is_kernel_clock) continue;
    const std::string value = setting_by(variable, name.c_str());
    if (!value.empty() && value != row.fallback) chosen.emplace_back(name, value);
  }
  return chosen;
}

std::string default_journal_directory() {
  return std::string(kSettings[static_cast<size_t>(Setting::TAILRACE_JOURNAL_DIR)].fallback);
}

std::string journal_directory(const Environment *environment) {
  constexpr const char *kName = "TAILRACE_JOURNAL_DIR";
  const std::string chosen = setting_by(environment != nullptr ? environment->get(kName) : std::getenv(kName), kName);
  return chosen.empty() ? default_journal_directory() : chosen;
}

std::vector<std::string> journal_directories(const std::string &run_dir, const std::string &journal_dir) {
  std::vector<std::string> found;
  std::vector<char> buffer(run_dir.size() + journal_dir.size() + 256);
  for (int place = 0; place < kJournalPlaces; ++place) {
    Writer w(buffer.data(), buffer.size());
    int64_t bytes_read = 0;
    if (!write_journal_place(w, place, journal_dir, ::geteuid(), run_dir, bytes_read)) continue;
    write_journal_directory(w, ::geteuid(), run_dir);
    found.emplace_back(w.view());
  }
  return found;
}

std::string journal_fault(const std::string &journal_dir) {
  const int status = check_journal_directory(journal_dir, ::geteuid());
  if (status == -EINVAL) return "it is no absolute path";
  if (status == -EPERM) return "another user has made tailrace-" + std::to_string(::geteuid()) + " in it";
  return status < 0 && status != -ENOSPC && status != -EDQUOT ? std::strerror(-status) : "";
}

std::optional<int> seccomp_filters() {
  std::string text;
  try {
    text = read_file("/proc/self/status", 64 * 1024);
  } catch (const Fault &) {
    return std::nullopt;
  }
  for (const char *name : {"\nSeccomp_filters:", "\nSeccomp:"}) {
    const size_t at = text.find(name);
    if (at != std::string::npos) return std::atoi(text.c_str() + at + std::strlen(name));
  }
  return std::nullopt;
}

std::optional<std::string> which(const std::string &command) {
  const auto runs = [](const std::string &path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (command.find('/') != std::string::npos) return runs(command) ? std::optional(command) : std::nullopt;
  const char *variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : kDefaultPath;
  for (size_t at = 0; at <= path.size() && !path.empty() && !command.empty();) {
    const size_t end = std::min(path.find(':', at), path.size());
    std::string found = path.substr(at, end - at);
    if (!found.empty() && found.back() != '/') found += '/';
    found += command;
    if (runs(found)) return found;
    at = end + 1;
  }
  return std::nullopt;
}

std::optional<ProgramObstacle> find_program_obstacle(const std::string &command) {
  const auto found = which(command);
  if (!found) return std::nullopt;
  int64_t bytes_read = 0;
  const Obstacle obstacle = find_obstacle(found->c_str(), bytes_read);
  if (obstacle == Obstacle::kNone) return std::nullopt;
  const std::string word(kObstacleNames[static_cast<int>(obstacle)]);
  const native::CauseRow *cause = native::find_cause(word);
  const std::string words = native::cause_words(word);
  const std::string advice = cause != nullptr && !cause->advice.empty() ? ": " + std::string(cause->advice) : "";
  return ProgramObstacle{word, *found, *found + " is " + words + advice, breaks(obstacle)};
}

static FollowChoice follow_choice(const Environment &traced) {
  const char *unseen = traced.get("TAILRACE_UNSEEN"), *patterns = traced.get("TAILRACE_FOLLOW");
  return {unseen != nullptr && unseen == kFollowAll, patterns != nullptr ? patterns : ""};
}

bool is_to_be_followed(const std::string &command, const Environment &traced) {
  const FollowChoice choice = follow_choice(traced);
  const auto found = choice.is_any() ? which(command) : std::nullopt;
  int64_t bytes_read = 0;
  return found && choice.wants(found->c_str(), look_at_program(found->c_str(), choice.needs(), bytes_read));
}

bool wants_following(const Environment &traced) { return follow_choice(traced).is_any(); }

}  // namespace tailrace::launcher
