// See description.h.
#include "description.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "core_here.h"
#include "environment.h"
#include "fault.h"
#include "files.h"
#include "format/checked_file.h"
#include "format/host_facts.h"
#include "format/redaction.h"
#include "json.h"
#include "name_key.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

// A run with 50,000 restarts has this much.
constexpr size_t kMostBytes = 64 << 20;
constexpr size_t kMostMountsBytes = 64 << 20;
// The first processor's entry; the kernel asks each further one for its frequency, which takes milliseconds on many.
constexpr size_t kCpuinfoBytes = 4096;

// An object of JSON, one member a line, as Python's json.dump(indent=1) writes it.
class Object {
 public:
  explicit Object(int depth) : indent_("\n" + std::string(static_cast<size_t>(depth) + 1, ' ')) {}

  Object &member(const char *key, std::string_view json) {
    text_ += text_.empty() ? "{" : ",";
    ((text_ += indent_) += '"') += key;
    (text_ += "\": ") += json;
    return *this;
  }
  Object &string(const char *key, std::string_view value) {
    std::string json;
    append_json(json, value);
    return member(key, json);
  }
  std::string end() const { return text_ + indent_.substr(0, indent_.size() - 1) + "}"; }

 private:
  std::string indent_, text_;
};

// A list of values in lines, or [].
std::string list(const std::vector<std::string> &values, int depth) {
  if (values.empty()) return "[]";
  const std::string indent = "\n" + std::string(static_cast<size_t>(depth), ' ');
  std::string text = "[";
  for (const std::string &value : values) {
    if (text.size() > 1) text += ',';
    ((text += indent) += ' ') += value;
  }
  return text + indent + "]";
}

std::string random_id() {
  unsigned char bytes[16] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) fail_with(errno);
  // A random UUID (RFC 9562).
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
  char hex[33];
  for (int i = 0; i < 16; ++i) put_hex(hex + 2 * i, bytes[i], 2);
  return {hex, 32};
}

std::string now() {
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t ns = realtime_ns();
  const auto seconds = static_cast<time_t>(ns / kSecond);
  struct tm utc;
  char day[32], text[64];
  ::gmtime_r(&seconds, &utc);
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%06ldZ", day, static_cast<long>(ns % kSecond / 1000));
  return text;
}

std::string user_name() {
  struct passwd entry, *found = nullptr;
  char buffer[16 * 1024];
  const bool known = ::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr;
  return known ? found->pw_name : std::to_string(::getuid());
}

std::string working_directory() {
  const std::unique_ptr<char, void (*)(void *)> here(::getcwd(nullptr, 0), ::free);
  if (here != nullptr) return here.get();
  if (errno == ENOENT) return "";  // removed, or outside of a changed root
  fail_with(errno);
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last + 1 - first));
}

std::string cpu_model(const char *machine) {
  std::string text;
  try {
    text = read_file("/proc/cpuinfo", kCpuinfoBytes);
  } catch (const Fault &) {
    return machine;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const size_t colon = line.find(':');
    const std::string key = trimmed(line.substr(0, std::min(colon, line.size())));
    // The keys of x86, POWER and RISC-V; ARM's kernel has numbers only.
    if (colon != std::string_view::npos && (key == "model name" || key == "cpu" || key == "uarch"))
      return trimmed(line.substr(colon + 1));
    at = end + 1;
  }
  return machine;
}

// The command line without the secrets in it, as the core records those of processes.
std::vector<std::string> redacted(const std::vector<std::string> &command) {
  const std::string mode = setting_by(std::getenv("TAILRACE_REDACT"), "TAILRACE_REDACT");
  const auto program = command.empty() ? std::nullopt : which(command[0]);
  Redactor redactor(parse_redaction(mode), &name_hasher(), program.value_or(""));
  std::vector<std::string> values;
  for (const std::string &word : command) {
    const std::string recorded = hashed_text(
        word.size(), [&](Writer &w) { redactor.write(w, word, [](Writer &to, string_view part) { to << part; }); });
    append_json(values.emplace_back(), recorded);
  }
  return values;
}

constexpr std::pair<const char *, std::string Mount::*> kMountFields[] = {
    {"dev", &Mount::dev},     {"source", &Mount::source}, {"root", &Mount::root},
    {"point", &Mount::point}, {"fstype", &Mount::fstype},
};

// Batch systems and their variables with the job, the account and the queue, the innermost first where one runs in
// another's job; null where it has none.
struct BatchSystem {
  const char *name, *job, *account, *queue;
};
constexpr BatchSystem kBatchSystems[] = {
    {"flux", "FLUX_JOB_ID", nullptr, nullptr},
    {"slurm", "SLURM_JOB_ID", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION"},
    {"pbs", "PBS_JOBID", "PBS_ACCOUNT", "PBS_QUEUE"},
    {"lsf", "LSB_JOBID", "LSB_PROJECT_NAME", "LSB_QUEUE"},
};

// The job of the batch system in which this process runs; empty where it is in none.
std::string batch_job(int depth) {
  for (const BatchSystem &system : kBatchSystems) {
    const char *job = std::getenv(system.job);
    if (job == nullptr || *job == 0) continue;
    Object out(depth);
    out.string("system", system.name).string("job", job);
    for (const auto &[key, variable] : {std::pair("account", system.account), std::pair("queue", system.queue)}) {
      const char *value = variable != nullptr ? std::getenv(variable) : nullptr;
      if (value != nullptr && *value != 0) out.string(key, value);
    }
    return out.end();
  }
  return "";
}

// As the run has them (format/host_description.cc). None without /proc: readers know such a host as one without mounts.
std::optional<std::vector<Mount>> recorded_mounts() {
  std::vector<Mount> found;
  try {
    found = mounts("/proc/self/mountinfo");
  } catch (const Fault &) {
    return std::nullopt;
  }
  const NameHasher &hasher = name_hasher();
  if (!hasher.is_on()) return found;
  for (Mount &mount : found) {
    for (std::string Mount::*field : {&Mount::source, &Mount::root, &Mount::point}) {
      mount.*field = hashed_text((mount.*field).size(),
                                 [&](Writer &w) { hasher.write_mount(w, mount.*field, field != &Mount::root); });
    }
  }
  return found;
}

std::string mount_list(const std::vector<Mount> &mounted, int depth) {
  std::vector<std::string> found;
  for (const Mount &mount : mounted) {
    Object one(depth + 1);
    for (const auto &[name, field] : kMountFields) one.string(name, mount.*field);
    found.push_back(one.end());
  }
  return list(found, depth);
}

// What other runs on this host may have described already.
struct Here {
  std::string host = HostName().c_str();
  std::optional<std::string> boot = boot_id();
  std::optional<std::vector<Mount>> mounted = recorded_mounts();
};

// By which readers find what is hashed in the run.
std::string redaction(const NameHasher &hasher, int depth) {
  Object out(depth);
  return out.string("names", "hashed").string("key", fingerprint_of(hasher)).end();
}

// The members of a description at this depth.
Object described(const std::string &directory, const Describing &run, const Here &here, bool with_mounts, int depth) {
  struct utsname names;
  const bool named = ::uname(&names) == 0;
  Object cpu(depth + 1), versions(depth + 1);
  cpu.string("model", cpu_model(named ? names.machine : "?"));
  cpu.member("count", std::to_string(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))));
  versions.string("tailrace", TAILRACE_VERSION);
  if (!run.python_version.empty()) versions.string("python", run.python_version);
  const auto clock = clock_error_ns();
  Object out(depth);
  out.string("run_id", random_id()).string("created", now()).member("command", list(redacted(run.command), depth + 1));
  const NameHasher &hasher = name_hasher();
  out.string("cwd", recorded_path(hasher, working_directory(), false));
  // Readers know the run's own files by it, also where the run was moved to another folder.
  out.string("directory", recorded_path(hasher, directory, false));
  out.string("tags", recorded_tags(hasher, run.tags)).string("user", user_name());
  out.member("uid", std::to_string(::getuid())).string("host", here.host).string("kernel", named ? names.release : "?");
  here.boot ? out.string("boot_id", *here.boot) : out.member("boot_id", "null");
  out.member("cpu", cpu.end()).member("clock_error_ns", clock ? std::to_string(*clock) : "null");
  char time[128];
  Writer facts(time, sizeof time);
  int64_t bytes_read = 0;
  write_time_facts(facts, clock_kind_here(), bytes_read);
  out.member("time", facts.view()).member("versions", versions.end());
  if (with_mounts && here.mounted) out.member("mounts", mount_list(*here.mounted, depth + 1));
  // So that a later command on this node finds the journals without the setting.
  const std::string chosen = journal_directory(nullptr);
  if (chosen != default_journal_directory() && !hasher.is_on()) out.string("journal_dir", chosen);
  if (hasher.is_on()) out.member("redaction", redaction(hasher, depth + 1));
  if (const std::string job = batch_job(depth + 1); !job.empty()) out.member("batch", job);
  return out;
}

// Returns the path of a new file with the content.
std::string write_scratch(const std::string &directory, const std::string &content) {
  std::string path = directory + "/." + kDescription + "." + random_id();
  write_new_file(path, content);
  return path;
}

bool has_no_links(int error) { return error == EPERM || error == EOPNOTSUPP || error == ENOSYS; }

void rename_or_fail(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  const int error = errno;
  ::unlink(from.c_str());
  fail_with(error);
}

// Whether the directory had no run.json.
bool publish_first(const std::string &directory, const std::string &content) {
  const std::string scratch = write_scratch(directory, content), path = directory + "/" + kDescription;
  // It fails if the name exists: of two runs that start together, one describes, the other restarts.
  const int error = ::link(scratch.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (error != 0 && has_no_links(error)) {
    rename_or_fail(scratch, path);
    return true;
  }
  ::unlink(scratch.c_str());
  if (error != 0 && error != EEXIST) fail_with(error);
  return error == 0;
}

// A run.json in the form that native/json.h reads: in one line, with bytes behind it.
class KnownRun {
 public:
  KnownRun(const std::string &path, std::string text) : path_(path), text_(std::move(text)) {
    using native::Value;
    std::string line = text_;
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == 0; }, ' ');
    line += '\n';
    line.append(native::kPadBytes, '\0');
    try {
      const char *end = native::skip_blanks(line.data());
      if (*end != '{') refuse();
      Known first;
      end = native::each_member(end, [&](std::string_view key, const Value &value) {
        take(first, key, value);
        if (key == "redaction" && value.kind == Value::Kind::kObject) {
          native::each_member(value.text.data(), [&](std::string_view inner, const Value &found) {
            if (inner == "key") key_ = text_in(found).value_or("?");
          });
        }
        if (key != "restarts") return;
        if (value.kind != Value::Kind::kArray) refuse();
        has_restarts_ = true;
        list_end_ = static_cast<size_t>(value.text.data() + value.text.size() - line.data()) - 1;
        each_element(value.text, [&](const char *p) {
          Known restart;
          native::each_member(p, [&](std::string_view inner, const Value &found) { take(restart, inner, found); });
          known_.push_back(std::move(restart));
        });
      });
      known_.push_back(std::move(first));
      if (*native::skip_blanks(end) != '\n') throw native::JsonError("there is text behind the object");
      object_end_ = static_cast<size_t>(end - line.data()) - 1;
    } catch (const native::JsonError &error) {
      throw Fault(Fault::Kind::kRun, path_ + " is not JSON (" + error.what() + "): " + kWhatToDo);
    }
  }

  bool knows(const std::string &host) const {
    return std::any_of(known_.begin(), known_.end(), [&](const Known &one) { return one.host == host; });
  }
  // Whether a description of this start of this host has the same mounts.
  bool knows_mounts(const Here &here) const {
    return here.boot && std::any_of(known_.begin(), known_.end(), [&](const Known &one) {
             return one.host == here.host && one.boot == here.boot && one.mounted == here.mounted;
           });
  }

  // Throws Fault where this process would hash names otherwise than the run does.
  void check_key(const std::string &own) const {
    if (own == key_) return;
    const std::string of_run = key_.empty() ? " has its names as they are" : " has its names hashed with another key";
    const char *to_do = key_.empty() ? "give another run directory, or unset TAILRACE_REDACT"
                                     : "give another run directory, or the same key by TAILRACE_REDACT_KEY";
    throw Fault(Fault::Kind::kUsage, path_ + of_run + ": " + to_do);
  }

  // The text with `restart` as the last of its restarts.
  std::string with(const std::string &restart) const {
    std::string out = text_;
    if (!has_restarts_) {
      const bool empty = last_before(object_end_) == '{';
      return out.insert(object_end_, std::string(empty ? "" : ",") + "\n \"restarts\": [\n  " + restart + "\n ]\n");
    }
    const bool empty = last_before(list_end_) == '[';
    const size_t at = text_.find_last_not_of(" \t\r\n", list_end_ - 1) + 1;
    out.replace(at, list_end_ - at, (empty ? "\n  " : ",\n  ") + restart + "\n ");
    return out;
  }

 private:
  // What one description says.
  struct Known {
    std::optional<std::string> host, boot;
    std::optional<std::vector<Mount>> mounted;
  };
  static constexpr const char *kWhatToDo = "repair it or give another run directory";

  [[noreturn]] void refuse() const { throw Fault(Fault::Kind::kRun, path_ + " does not describe a run: " + kWhatToDo); }
  static void take(Known &known, std::string_view key, const native::Value &value) {
    if (key == "host") known.host = text_in(value);
    if (key == "boot_id") known.boot = text_in(value);
    if (key != "mounts" || value.kind != native::Value::Kind::kArray) return;
    known.mounted.emplace();
    each_element(value.text, [&](const char *p) {
      Mount &mount = known.mounted->emplace_back();
      native::each_member(p, [&](std::string_view inner, const native::Value &found) {
        for (const auto &[name, field] : kMountFields) {
          if (inner == name) mount.*field = text_in(found).value_or("");
        }
      });
    });
  }
  static std::optional<std::string> text_in(const native::Value &value) {
    if (value.kind != native::Value::Kind::kString) return std::nullopt;
    std::string scratch;
    return std::string(native::text_of(value, &scratch));
  }
  // Of a list that was read before, so it is valid.
  template <class F>
  static void each_element(std::string_view list, F &&element) {
    const char *p = native::skip_blanks(list.data() + 1);
    while (*p != ']') {
      if (*p == '{') element(p);
      native::Value ignored;
      p = native::skip_blanks(native::read_value(p, &ignored));
      if (*p == ',') p = native::skip_blanks(p + 1);
    }
  }
  char last_before(size_t at) const { return text_[text_.find_last_not_of(" \t\r\n", at - 1)]; }

  std::string path_, text_, key_;
  std::vector<Known> known_;
  bool has_restarts_ = false;
  size_t list_end_ = 0, object_end_ = 0;
};

// Adds the run to the restarts of a run.json, `unless_known`: where no description is of this host.
void add_restart(const std::string &directory, const Describing &run, bool unless_known) {
  const Descriptor lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.is_open()) fail_with(errno);
  // A restart is noted in milliseconds, a compaction takes minutes: it holds the same lock, but leaves run.json as it
  // is. Some network file systems can't lock directories. Without the lock one of two simultaneous restarts may be
  // lost.
  lock_within_a_second(lock.get());
  const std::string path = directory + "/" + kDescription;
  struct stat status;
  if (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<size_t>(status.st_size) > kMostBytes) {
    say(path + " has more than " + bytes_text(kMostBytes) +
        ", so that this run is not described in it: give further runs another directory");
    // Whether its names are hashed can't be found out.
    if (name_hasher().is_on()) throw Fault(Fault::Kind::kUsage, path + " is too large: give another run directory");
    return;
  }
  const KnownRun known(path, read_regular(path, kMostBytes));
  known.check_key(fingerprint_of(name_hasher()));
  const Here here;
  if (unless_known && known.knows(here.host)) return;
  const Object restart = described(directory, run, here, !known.knows_mounts(here), 2);
  rename_or_fail(write_scratch(directory, known.with(restart.end())), path);
}

}  // namespace

void check_name_key(const std::string &directory) {
  static std::mutex mutex;
  // Once, since in a traced process each look is an event.
  static std::set<std::pair<std::string, std::string>> checked;
  const std::string path = directory + "/" + kDescription, key = fingerprint_of(name_hasher());
  const std::lock_guard lock(mutex);
  struct stat status;
  if (checked.count({path, key}) != 0 || ::lstat(path.c_str(), &status) != 0) return;
  try {
    KnownRun(path, read_regular(path, kMostBytes)).check_key(key);
  } catch (const Fault &fault) {
    // What else is wrong with it is nothing to a process that records names as they are.
    if (fault.kind == Fault::Kind::kUsage || !key.empty()) throw;
  }
  checked.insert({path, key});
}

std::vector<Mount> mounts(const std::string &mountinfo) {
  std::string text = read_file(mountinfo, kMostMountsBytes);
  std::vector<Mount> found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    MountLine line;
    if (parse_mount(&text[at], end - at, line)) {
      found.push_back({std::string(line.dev), std::string(line.source), std::string(line.root), std::string(line.point),
                       std::string(line.fstype)});
    }
    at = end + 1;
  }
  return found;
}

std::optional<int64_t> clock_error_ns() {
  struct timex t = {};
  if (::adjtimex(&t) < 0 || (t.status & STA_UNSYNC) != 0) return std::nullopt;
  return int64_t{t.maxerror} * 1000;
}

std::optional<std::string> boot_id() {
  const OwnIo own;
  char text[64];
  Writer w(text, sizeof text);
  int64_t bytes_read = 0;
  if (!write_boot_id(w, bytes_read)) return std::nullopt;
  return std::string(w.view());
}

void describe_run(const std::string &directory, const Describing &run) {
  Object first = described(directory, run, Here(), true, 0);
  const std::string text = first.member("restarts", "[]").end();
  // "format" comes first.
  if (!publish_first(directory, "{\n \"format\": 1," + text.substr(1) + "\n")) add_restart(directory, run, false);
}

void describe_host(const std::string &directory, const Describing &run) { add_restart(directory, run, true); }

}  // namespace tailrace::launcher
