// See session/container_words.h. The options and the configuration are those of Apptainer 1.5 and SingularityCE 4.
#include "session/container_words.h"

#include "base/own_memory.h"
#include "base/sys.h"

namespace tailrace {
namespace {

constexpr string_view kActions[] = {"exec", "run", "shell", "test"};
// Options whose value is the next word, where it isn't behind '='.
constexpr string_view kWithValue[] = {"add-caps",
                                      "app",
                                      "apply-cgroups",
                                      "authfile",
                                      "bind",
                                      "blkio-weight",
                                      "blkio-weight-device",
                                      "cdi-dirs",
                                      "config",
                                      "containlibs",
                                      "cpu-shares",
                                      "cpus",
                                      "cpuset-cpus",
                                      "cpuset-mems",
                                      "cwd",
                                      "data",
                                      "device",
                                      "dmtcp-launch",
                                      "dmtcp-restart",
                                      "dns",
                                      "docker-host",
                                      "drop-caps",
                                      "env",
                                      "env-file",
                                      "fusemount",
                                      "home",
                                      "hostname",
                                      "memory",
                                      "memory-reservation",
                                      "memory-swap",
                                      "mount",
                                      "netns-path",
                                      "network",
                                      "network-args",
                                      "no-env",
                                      "no-mount",
                                      "overlay",
                                      "pem-path",
                                      "pid-file",
                                      "pids-limit",
                                      "pwd",
                                      "runscript-timeout",
                                      "scratch",
                                      "security",
                                      "shell",
                                      "tmpdir",
                                      "workdir"};
constexpr string_view kShortWithValue = "BHoSWs";

template <size_t N>
bool is_one_of(string_view word, const string_view (&words)[N]) {
  for (string_view one : words) {
    if (one == word) return true;
  }
  return false;
}

string_view last_part(string_view path) {
  size_t slash = path.rfind('/');
  return slash == string_view::npos ? path : slice(path, slash + 1, path.size() - slash - 1);
}

// Set to anything but what Go's ParseBool takes for false.
bool is_set(char *const *environment, string_view name) {
  constexpr string_view kFalse[] = {"", "0", "f", "F", "false", "FALSE", "False"};
  for (char *const *e = environment; *e; ++e) {
    string_view entry(*e);
    for (string_view prefix : {kApptainer, kSingularity}) {
      size_t n = prefix.size() + name.size();
      if (!starts_with(entry, prefix) || entry.size() <= n || entry[n] != '=') continue;
      if (slice(entry, prefix.size(), name.size()) == name &&
          !is_one_of(slice(entry, n + 1, entry.size() - n - 1), kFalse))
        return true;
    }
  }
  return false;
}

// Whether a line is "key = no", with any blanks.
bool says_no(string_view line, string_view key) {
  if (!starts_with(line, key)) return false;
  char rest[8];
  size_t n = 0;
  for (size_t i = key.size(); i < line.size() && n < sizeof rest; ++i) {
    if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') rest[n++] = line[i];
  }
  return string_view(rest, n) == "=no";
}

}  // namespace

ContainerCommand::ContainerCommand(string_view exe, char *const *argv, char *const *environment) {
  const string_view name = last_part(exe);
  if (name != "apptainer" && name != "singularity") return;
  prefix_ = name == "apptainer" ? kApptainer : kSingularity;
  char *const *at = argv + 1;
  // Before the action its own options stand.
  for (; *at && (*at)[0] == '-'; ++at) {
    if (string_view(*at) == "-c" || string_view(*at) == "--config") ++at;
    if (!*at) return;
  }
  if (!*at) return;
  if (string_view(*at) == "instance") {
    ++at;
    if (!*at || (string_view(*at) != "start" && string_view(*at) != "run")) return;
  } else if (!is_one_of(*at, kActions)) {
    return;
  }
  runs_ = true;
  cleans_ = is_set(environment, "_CLEANENV") || is_set(environment, "_CONTAINALL");
  writes_ = is_set(environment, "_WRITABLE");
  read_options(at + 1);
  runs_ = runs_ && !writes_ && may_bind(exe);
}

// Up to the image, behind which the container's own words begin.
void ContainerCommand::read_options(char *const *word) {
  char *const *at = word;
  while (*at && reads_option(*at, at)) ++at;
  if (!*at || starts_with(*at, "instance://")) runs_ = false;
}

bool ContainerCommand::reads_option(string_view word, char *const *&at) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word[1] == '-') {
    string_view name = slice(word, 2, word.size() - 2);
    if (name == "writable") writes_ = true;
    if (name == "cleanenv" || name == "containall") cleans_ = true;
    if (is_one_of(name, kWithValue) && at[1]) ++at;
    return true;
  }
  for (size_t i = 1; i < word.size(); ++i) {
    if (word[i] == 'w') writes_ = true;
    if (word[i] == 'e' || word[i] == 'C') cleans_ = true;
    if (kShortWithValue.find(word[i]) == string_view::npos) continue;
    if (i + 1 == word.size() && at[1]) ++at;
    break;
  }
  return true;
}

bool ContainerCommand::may_bind(string_view exe) const {
  constexpr size_t kMost = 64 << 10;
  const string_view name = last_part(exe);
  char path[1200];
  int fd = -1;
  for (int beside = 1; beside >= 0 && fd < 0; --beside) {
    Writer w(path, sizeof path);
    if (beside) w << slice(exe, 0, exe.size() - name.size()) << "..";
    w << "/etc/" << name << '/' << name << ".conf";
    fd = sys::open(w.c_str(), O_RDONLY);
  }
  if (fd < 0) return true;
  char *text = static_cast<char *>(own_memory::pages(kMost));
  long n = text ? sys::read(fd, text, kMost) : 0;
  sys::close(fd);
  bool overlay = true, underlay = true, user = true;
  each_part({text, n > 0 ? static_cast<size_t>(n) : 0}, '\n', [&](string_view line) {
    overlay = overlay && !says_no(line, "enable overlay");
    underlay = underlay && !says_no(line, "enable underlay");
    user = user && !says_no(line, "user bind control");
    return true;
  });
  if (text) own_memory::release(text, kMost);
  return user && (overlay || underlay);
}

}  // namespace tailrace
