// See session/process_description.h.
#include "session/process_description.h"

#include "base/sys.h"
#include "format/program.h"
#include "format/redaction.h"
#include "session/session.h"

namespace tailrace {
namespace {

// The processors that the process may run on as the kernel writes lists of them (cpuset(7), "List format").
void describe_processors(Writer &w) {
  unsigned long set[16] = {};  // 1024 processors
  constexpr unsigned kBits = 8 * sizeof set[0];
  long bytes = sys::call(SYS_sched_getaffinity, 0, sizeof set, sys::pointer(set));
  if (bytes <= 0) return;
  auto has = [&](unsigned i) { return i < 8 * sizeof set && (set[i / kBits] >> i % kBits & 1); };
  const char *comma = "";
  w << ",\"cpus\":\"";
  for (unsigned i = 0; i < 8 * static_cast<unsigned>(bytes); ++i) {
    if (!has(i)) continue;
    unsigned last = i;
    while (has(last + 1)) ++last;
    (w << comma).number(i);
    if (last > i) (w << '-').number(last);
    comma = ",";
    i = last;
  }
  w << '"';
}

void put_path(Writer &w, string_view path) {
  w << '"';
  g_session.hasher.write_path(w, path, true, put_json_part);
  w << '"';
}

// The control group (cgroups(7)): in the hierarchy of version 2 or, where that has only the root, in the first of
// version 1 that has another. Returns the bytes that were read. At each start (5 to 7 us), since batch systems and
// systemd-run put each step into its own.
long describe_control_group(Writer &w) {
  char text[4096];
  int fd = sys::open("/proc/self/cgroup", O_RDONLY);
  if (fd < 0) return 0;
  long n = sys::read(fd, text, sizeof text);
  sys::close(fd);
  if (n <= 0) return 0;
  string_view rest(text, static_cast<size_t>(n)), found;
  while (!rest.empty()) {
    size_t end = rest.find('\n');
    string_view line = slice(rest, 0, end == string_view::npos ? rest.size() : end);
    rest.remove_prefix(end == string_view::npos ? rest.size() : end + 1);
    // hierarchy:controllers:path
    size_t path = line.find(':', line.find(':') + 1);
    if (path == string_view::npos) continue;
    string_view group = slice(line, path + 1, line.size() - path - 1);
    bool second = starts_with(line, "0::");
    if (found.size() <= 1 || (second && group.size() > 1)) found = group;
  }
  if (!found.empty()) put_path(w << ",\"cgroup\":", found);
  return n;
}

}  // namespace

long describe_process(char **argv) {
  Session &g = g_session;
  char path[4096], program[256];
  Writer w(g.process_members, sizeof g.process_members);
  w << "\"ppid\":";
  w.number(sys::getppid());
  long n = sys::readlink("/proc/self/exe", path, sizeof path);
  put_path(w << ",\"exe\":", {path, n > 0 ? static_cast<size_t>(n) : 0});
  Writer exe(program, sizeof program);
  if (n > 0) exe << string_view(path, static_cast<size_t>(n));
  n = sys::getcwd(path, sizeof path);
  put_path(w << ",\"cwd\":", {path, n > 1 ? static_cast<size_t>(n) - 1 : 0});
  if (g.environment.world_size) (w << ",\"world_size\":").number(g.environment.world_size);
  if (is_go_program()) w << ",\"runtime\":\"go\"";
  w << ",\"uid\":";
  w.number(sys::getuid());
  describe_processors(w);
  long bytes_read = describe_control_group(w);
  w << ",\"argv\":[";
  size_t whole = w.size();
  Redactor redactor(parse_redaction(g.environment[Setting::TAILRACE_REDACT]), &g.hasher, exe.view());
  for (char **a = argv; a && *a; ++a) {
    if (a != argv) w << ',';
    w << '"';
    redactor.write(w, *a, put_json_part);
    w << '"';
    // A long command line is cut at the end of an argument.
    if (w.overflowed() || w.room() < 16) break;
    whole = w.size();
  }
  w.truncate(whole);
  w << ']';
  g.process_members_bytes = w.size();
  return bytes_read;
}

}  // namespace tailrace
