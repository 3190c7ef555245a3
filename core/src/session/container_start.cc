// See session/container_start.h.
#include "session/container_start.h"

#include <sys/auxv.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own_memory.h"
#include "base/sys.h"
#include "base/text.h"
#include "format/settings.h"
#include "session/container_words.h"
#include "session/session.h"

namespace tailrace {
namespace {

// Where the library's folder is inside. A folder of its own, since the library may be in one with the host's libc.
constexpr string_view kInside = "/.tailrace";
// Finds out inside whether the image can have the library, and puts it in its own place (container/entry.cc).
constexpr string_view kEntry = "/libtailrace-entry.so";
constexpr string_view kBind = "_BINDPATH=", kPreload = "LD_PRELOAD=", kPreloadInside = "ENV_LD_PRELOAD=",
                      kSetting = "ENV_TAILRACE_";

// Of "/" when the session began.
struct Root {
  uint64_t device = 0, inode = 0;
  bool operator==(const Root &other) const { return device == other.device && inode == other.inode; }
};
Root g_root;
string_view g_entry;

Root root_now() {
  struct statx s;
  if (sys::statx(AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_INO, &s) != 0) return g_root;
  return {uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor, s.stx_ino};
}

string_view folder_of(string_view path) {
  size_t slash = path.rfind('/');
  return slash == string_view::npos ? string_view() : slice(path, 0, slash);
}

bool has_any(string_view text, string_view of) {
  for (char c : text) {
    if (of.find(c) != string_view::npos) return true;
  }
  return false;
}

// Of `name` behind the prefix: "APPTAINER" and "_BINDPATH=". Null when it isn't there.
const char *find_variable(char *const *environment, string_view prefix, string_view name) {
  for (char *const *e = environment; *e; ++e) {
    string_view entry(*e);
    if (starts_with(entry, prefix) && starts_with(slice(entry, prefix.size(), entry.size() - prefix.size()), name))
      return *e + prefix.size() + name.size();
  }
  return nullptr;
}

// The environment with the variables, in memory of its own.
class Extended {
 public:
  Extended(char *const *environment, string_view prefix) : environment_(environment), prefix_(prefix) {
    size_t count = 0, bytes = 16 << 10;
    for (char *const *e = environment; *e; ++e, ++count) bytes += string_view(*e).size();
    for (string_view value : g_session.environment.values) bytes += value.size();
    size_t pointers = (count + kSettingCount + 8) * sizeof(char *);
    size_ = pointers + bytes;
    entries_ = static_cast<char **>(own_memory::pages(size_));
    if (entries_) text_ = Writer(reinterpret_cast<char *>(entries_) + pointers, bytes);
  }
  ~Extended() {
    if (entries_) own_memory::release(entries_, size_);
  }
  Extended(const Extended &) = delete;
  Extended &operator=(const Extended &) = delete;

  // Null without memory.
  char **build(string_view library_folder, bool keeps_preloads, string_view process) {
    if (!entries_) return nullptr;
    for (char *const *e = environment_; *e; ++e) {
      if (!is_replaced(*e)) entries_[count_++] = *e;
    }
    add_binds(library_folder);
    add_preload(keeps_preloads);
    for (size_t i = 0; i < kSettingCount; ++i) {
      bool is_process = i == static_cast<size_t>(Setting::TAILRACE_PROCESS);
      string_view value = is_process ? process : g_session.environment.values[i];
      if (value.empty() || value == kSettings[i].fallback) continue;
      begin() << prefix_ << "ENV_" << kSettings[i].name << '=' << value;
      end();
    }
    entries_[count_] = nullptr;
    return text_.overflowed() ? nullptr : entries_;
  }

 private:
  // Apptainer takes both names, and says so when they differ; Singularity its own alone.
  bool is_read(string_view prefix) const { return prefix == prefix_ || prefix_ == kApptainer; }

  bool is_replaced(string_view entry) const {
    for (string_view prefix : kContainerPrefixes) {
      if (!starts_with(entry, prefix)) continue;
      string_view name = slice(entry, prefix.size(), entry.size() - prefix.size());
      if (starts_with(name, kSetting)) return true;
      if (is_read(prefix) && (starts_with(name, kBind) || starts_with(name, kPreloadInside))) return true;
    }
    return false;
  }

  // Whatever variables of that name there are, put(given) writes the new value of each; null where there is none.
  template <class F>
  void extend(string_view name, F put) {
    bool any = false;
    for (string_view prefix : kContainerPrefixes) {
      const char *given = is_read(prefix) ? find_variable(environment_, prefix, name) : nullptr;
      if (!given) continue;
      any = true;
      begin() << prefix << name;
      put(given);
      end();
    }
    if (any) return;
    begin() << prefix_ << name;
    put(nullptr);
    end();
  }

  void add_binds(string_view library_folder) {
    extend(kBind, [&](const char *given) {
      if (given && *given) text_ << given << ',';
      text_ << library_folder << ':' << kInside << ":ro," << g_session.environment[Setting::TAILRACE_RUN];
    });
  }

  void add_preload(bool keeps_preloads) {
    const char *outside = keeps_preloads ? find_variable(environment_, kPreload, "") : nullptr;
    extend(kPreloadInside, [&](const char *given) {
      text_ << kInside << kEntry;
      each_part(given     ? given
                : outside ? outside
                          : "",
                ':', [&](string_view element) {
                  if (!element.empty() && element != g_session.environment.preload) text_ << ':' << element;
                  return true;
                });
    });
  }

  Writer &begin() {
    begun_ = text_.size();
    return text_;
  }
  void end() {
    text_ << '\0';
    entries_[count_++] = const_cast<char *>(text_.view().data()) + begun_;
  }

  char *const *environment_;
  string_view prefix_;
  char **entries_ = nullptr;
  size_t size_ = 0, count_ = 0, begun_ = 0;
  Writer text_{nullptr, 0};
};

// A bind has ':' and ',' as separators, and values are evaluated by a shell but with --no-eval.
bool can_be_passed(string_view library_folder) {
  const StartEnvironment &start = g_session.environment;
  if (has_any(library_folder, ":,\\\"") || has_any(start[Setting::TAILRACE_RUN], ":,\\\"")) return false;
  for (string_view value : start.values) {
    if (has_any(value, "$`\\\"")) return false;
  }
  return true;
}

bool has_entry() {
  struct statx s;
  return !g_entry.empty() && sys::statx(AT_FDCWD, g_entry.data(), AT_STATX_DONT_SYNC, STATX_TYPE, &s) == 0;
}

}  // namespace

void remember_root() {
  g_root = root_now();
  const string_view folder = folder_of(g_session.environment.preload);
  const size_t size = folder.size() + kEntry.size() + 1;
  auto *text = folder.empty() ? nullptr : static_cast<char *>(arena_allocate(size));
  if (!text) return;
  Writer w(text, size);
  w << folder << kEntry;
  w.c_str();
  g_entry = {text, size - 1};
}

bool has_another_root() { return !(root_now() == g_root); }

string_view library_for_program() {
  // Under another root is another libc. One that has only the library gets it, since it was put there.
  return root_now() == g_root || !has_entry() ? g_session.environment.preload : g_entry;
}

void start_container(char **argv, uint64_t filters, uint64_t user) {
  char exe[1024];
  long n = sys::readlink("/proc/self/exe", exe, sizeof exe);
  if (!argv || !argv[0] || n <= 0 || n == sizeof exe) return;
  ContainerCommand command({exe, static_cast<size_t>(n)}, argv, environ);
  const string_view library_folder = folder_of(g_session.environment.preload);
  if (!command.runs_container() || !has_entry() || !can_be_passed(library_folder)) return;
  const char *run = find_variable(environ, command.prefix(), "ENV_TAILRACE_RUN=");
  if (run && run == g_session.environment[Setting::TAILRACE_RUN]) return;  // executed again
  char process[64];
  Writer w(process, sizeof process);
  w.number(static_cast<int64_t>(filters)) << ':';
  w.number(static_cast<int64_t>(user));
  Extended extended(environ, command.prefix());
  char **environment = extended.build(library_folder, !command.cleans_environment(), w.view());
  // By the name that it was started by, which is its name in lists of processes.
  if (environment)
    sys::call(SYS_execve, static_cast<long>(getauxval(AT_EXECFN)), sys::pointer(argv), sys::pointer(environment));
}

}  // namespace tailrace
