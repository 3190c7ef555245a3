// See rundir.h.
#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "format/checked_file.h"
#include "format/host_facts.h"

namespace tailrace::flux {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct CloseFile {
  void operator()(FILE *f) const { fclose(f); }
};
using File = std::unique_ptr<FILE, CloseFile>;

// Creates the path and its missing parents. `made`: it did not exist. Returns errno, or 0.
int make_directories(const char *path, bool &made) {
  made = mkdir(path, 0700) == 0;
  if (made || errno != ENOENT) return made || errno == EEXIST ? 0 : errno;
  CString copy(strdup(path));
  if (!copy) return ENOMEM;
  for (char *p = copy.get() + 1; *p; ++p) {
    if (*p != '/') continue;
    *p = 0;
    // An existing parent may be read-only: only the failure of the last mkdir counts.
    mkdir(copy.get(), 0700);
    *p = '/';
  }
  made = mkdir(path, 0700) == 0;
  return made || errno == EEXIST ? 0 : errno;
}

CString join(const char *directory, const char *name) { return formatted("%s/%s", directory, name); }

// A JSON string of bytes that may not be UTF-8.
json_t *as_string(const char *bytes) {
  json_t *string = json_string(bytes);
  return string ? string : json_string("?");
}

// The contents of a file of /proc, whose size is unknown, terminated by a zero; null when it can't be read.
CString read_whole(const char *path) {
  Descriptor fd(open(path, O_RDONLY | O_CLOEXEC));
  size_t room = 16 * 1024, n = 0;
  CString text(static_cast<char *>(malloc(room)));
  while (fd.get() >= 0 && text) {
    ssize_t more = read(fd.get(), text.get() + n, room - 1 - n);
    if (more <= 0) {
      text.get()[n] = 0;
      return more == 0 ? static_cast<CString &&>(text) : nullptr;
    }
    n += static_cast<size_t>(more);
    if (room - n < 4096) text.reset(static_cast<char *>(realloc(text.release(), room *= 2)));
  }
  return nullptr;
}

// The mounts as a JSON list. Written as text: they are most of a description, and as jansson values they would take as
// long as all the rest.
CString list_mounts() {
  CString lines = read_whole("/proc/self/mountinfo");
  // A byte becomes up to six characters, and a line has about 60 characters of keys.
  size_t room = (lines ? strlen(lines.get()) : 0) * 8 + 64;
  CString text(static_cast<char *>(malloc(room)));
  if (!text) return nullptr;
  Writer w(text.get(), room);
  const char *before_one = "[";
  char *rest_of_lines = nullptr;
  for (char *line = lines ? strtok_r(lines.get(), "\n", &rest_of_lines) : nullptr; line;
       line = strtok_r(nullptr, "\n", &rest_of_lines)) {
    MountLine mount;
    if (!parse_mount(line, strlen(line), mount)) continue;
    w << before_one << "\n  {\"dev\": ";
    w.json(mount.dev) << ", \"source\": ";
    w.json(mount.source) << ", \"root\": ";
    w.json(mount.root) << ", \"point\": ";
    w.json(mount.point) << ", \"fstype\": ";
    w.json(mount.fstype) << '}';
    before_one = ",";
  }
  w << (*before_one == ',' ? "]" : "[]");
  w.c_str();
  return w.overflowed() ? nullptr : static_cast<CString &&>(text);
}

Json processor() {
  File f(fopen("/proc/cpuinfo", "re"));
  char line[512];
  struct utsname names;
  const char *model = uname(&names) == 0 ? names.machine : "?";
  while (f && fgets(line, sizeof line, f.get())) {
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, "model name", 10) != 0) continue;
    line[strcspn(line, "\n")] = 0;
    model = colon + 1 + strspn(colon + 1, " \t");
    break;
  }
  return Json(
      json_pack("{s:o s:i}", "model", as_string(model), "count", static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))));
}

// The kernel's bound on the clock's error (adjtimex(2)), null when the clock is not synchronized.
json_t *clock_error() {
  struct timex t = {};
  int state = adjtimex(&t);
  return state < 0 || (t.status & STA_UNSYNC) ? json_null() : json_integer(static_cast<json_int_t>(t.maxerror) * 1000);
}

json_t *user_name() {
  struct passwd entry, *found = nullptr;
  char buffer[4096];
  if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found) return as_string(found->pw_name);
  return json_sprintf("%u", static_cast<unsigned>(getuid()));
}

json_t *random_id() {
  unsigned char bytes[16] = {};
  char hex[33] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return json_null();
  for (int i = 0; i < 16; ++i) put_hex(hex + 2 * i, bytes[i], 2);
  return json_string(hex);
}

json_t *now() {
  struct timespec t;
  struct tm utc;
  char day[32];
  clock_gettime(CLOCK_REALTIME, &t);
  gmtime_r(&t.tv_sec, &utc);
  strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
  return json_sprintf("%s.%06ldZ", day, t.tv_nsec / 1000);
}

json_t *boot_id() {
  char id[64];
  Writer w(id, sizeof id);
  int64_t bytes_read = 0;
  return write_boot_id(w, bytes_read) ? as_string(w.c_str()) : json_null();
}

json_t *time_facts() {
  char text[128];
  Writer w(text, sizeof text);
  int64_t bytes_read = 0;
  write_time_facts(w, clock_kind_here(), bytes_read);
  return json_loads(w.c_str(), 0, nullptr);
}

// The members of a description except the mounts.
Json describe(const char *directory, const RunDescription &d, const char *host) {
  struct utsname names;
  Json cpu = processor();
  Json described(json_pack("{s:o s:o s:O s:o s:o s:o s:i s:s s:o s:s s:O s:o s:{s:s}}",                          //
                           "run_id", random_id(), "created", now(), "command", const_cast<json_t *>(d.command),  //
                           "cwd", as_string(d.cwd), "tags", json_stringn(d.tags.data(), d.tags.size()),          //
                           "user", user_name(), "uid", static_cast<int>(getuid()), "host", host, "boot_id",
                           boot_id(),                                                             //
                           "kernel", uname(&names) == 0 ? names.release : "?", "cpu", cpu.get(),  //
                           "clock_error_ns", clock_error(), "versions", "tailrace", TAILRACE_VERSION));
  if (!d.journal_dir.empty()) {
    json_object_set_new(described.get(), "journal_dir", json_stringn(d.journal_dir.data(), d.journal_dir.size()));
  }
  json_object_set_new(described.get(), "directory", as_string(directory));
  json_object_set_new(described.get(), "time", time_facts());
  json_object_set(described.get(), "batch", const_cast<json_t *>(d.batch));
  return described;
}

// False, with EEXIST, if `to` exists.
bool rename_if_new(const char *from, const char *to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
  // Not supported by every file system (NFS).
  if (errno != EINVAL && errno != ENOSYS) return false;
  if (link(from, to) == 0) return unlink(from) == 0;
  // Hard links neither.
  bool linkless = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK;
  return linkless && rename(from, to) == 0;
}

// Replaces run.json atomically, so that it is complete at every moment. False, with errno, on a failure; `only_if_new`:
// with EEXIST if it exists.
bool publish(const char *directory, string_view content, bool only_if_new) {
  CString name;
  char *text = nullptr;
  Json id(random_id());
  if (asprintf(&text, "%s/.run.json.%s", directory, json_string_value(id.get())) < 0) return false;
  CString scratch(text), target = join(directory, "run.json");
  if (!target) return false;
  bool done = false;
  {
    Descriptor fd(open(scratch.get(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.get() < 0) return false;
    done = write(fd.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size());
  }
  done = done && (only_if_new ? rename_if_new(scratch.get(), target.get()) : rename(scratch.get(), target.get()) == 0);
  if (done) return true;
  int saved = errno;
  unlink(scratch.get());
  errno = saved;
  return false;
}

bool knows(const json_t *run, const char *host) {
  if (text_of(member(run, "host")) == host) return true;
  json_t *restarts = member(run, "restarts");
  for (size_t i = 0; i < json_array_size(restarts); ++i) {
    if (text_of(member(json_array_get(restarts, i), "host")) == host) return true;
  }
  return false;
}

bool publish_first(const char *directory, const RunDescription &d, const char *host) {
  Json content = describe(directory, d, host);
  json_object_set_new(content.get(), "format", json_integer(1));
  json_object_set_new(content.get(), "restarts", json_array());
  CString members(json_dumps(content.get(), JSON_INDENT(1))), found_mounts = list_mounts();
  if (!members || !found_mounts) {
    errno = ENOMEM;
    return false;
  }
  members.get()[strlen(members.get()) - 2] = 0;  // "\n}"
  char *text = nullptr;
  int n = asprintf(&text, "%s,\n \"mounts\": %s\n}\n", members.get(), found_mounts.get());
  CString owned(n < 0 ? nullptr : text);
  return owned && publish(directory, {owned.get(), static_cast<size_t>(n)}, true);
}

// Adds this host to run.json unless present; false, with errno, when it can't be written.
bool describe_host(const char *directory, const RunDescription &d) {
  const HostName name;
  const char *host = name.c_str();
  CString path = join(directory, "run.json");
  if (access(path.get(), F_OK) != 0) {
    if (publish_first(directory, d, host)) return true;
    if (errno != EEXIST) return false;
  }
  Json run(json_load_file(path.get(), 0, nullptr));
  if (knows(run.get(), host)) return true;
  Descriptor lock(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems can't lock directories, and a holder may be stuck, for whom the job doesn't wait. Without
  // the lock one of two simultaneous hosts may be lost.
  lock_within_a_second(lock.get());
  run = Json(json_load_file(path.get(), 0, nullptr));
  if (!json_is_object(run.get())) {
    errno = EINVAL;
    return false;
  }
  if (knows(run.get(), host)) return true;
  if (!member(run.get(), "restarts")) json_object_set_new(run.get(), "restarts", json_array());
  Json here = describe(directory, d, host);
  CString found_mounts = list_mounts();
  if (found_mounts) json_object_set_new(here.get(), "mounts", json_loads(found_mounts.get(), 0, nullptr));
  json_array_append_new(member(run.get(), "restarts"), here.release());
  CString text(json_dumps(run.get(), JSON_INDENT(1)));
  return text && publish(directory, text.get(), false);
}

bool refuse(Writer &fault, const char *what, const char *path, int error) {
  fault << what << ' ' << path << ": " << strerror(error);
  return false;
}

bool is_run(const char *path) {
  CString trace = join(path, "trace"), description = join(path, "run.json");
  return access(trace.get(), F_OK) == 0 || access(description.get(), F_OK) == 0;
}

bool is_empty(const char *path) {
  DIR *directory = opendir(path);
  if (!directory) return true;
  bool empty = true;
  while (const dirent *entry = readdir(directory)) {
    string_view name(entry->d_name);
    if (name != "." && name != "..") empty = false;
  }
  closedir(directory);
  return empty;
}

// Neither empty nor a run. Checked twice, because another shell may have created its first folder in between.
bool is_foreign(const char *path) { return !is_run(path) && !is_empty(path) && !is_run(path); }

// By another launcher, with TAILRACE_REDACT=paths.
bool has_hashed_names(const char *path) {
  CString description = join(path, "run.json");
  Json run(json_load_file(description.get(), 0, nullptr));
  return member(run.get(), "redaction") != nullptr;
}

// Nobody but the user may own it or write there: who may could replace trace files by links, or read what others trace
// into them.
bool is_users_own(const char *path, Writer &fault) {
  Descriptor fd(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st;
  if (fd.get() < 0 || fstat(fd.get(), &st) < 0)
    return refuse(fault, "can't use the run directory's folder", path, errno);
  if (st.st_uid != geteuid()) {
    fault << path << " belongs to another user: give a directory of your own";
    return false;
  }
  if (st.st_mode & (S_IWGRP | S_IWOTH)) {
    fault << "others may write to " << path << ": `chmod go-w " << path << "`, or give another directory";
    return false;
  }
  return true;
}

}  // namespace

bool make_run_directory(const char *path, const RunDescription &description, CString &real, Writer &fault,
                        Writer &warning) {
  bool made;
  if (int error = make_directories(path, made)) return refuse(fault, "can't create the run directory", path, error);
  if (!made && is_foreign(path)) {
    fault << path << " is neither empty nor a run directory: give a new or an empty one";
    return false;
  }
  real.reset(realpath(path, nullptr));
  if (!real) return refuse(fault, "can't use the run directory", path, errno);
  if (!is_users_own(real.get(), fault)) return false;
  if (!made && has_hashed_names(real.get())) {
    fault << "the names in " << real.get()
          << " are hashed, and Flux jobs would write theirs as they are: give another run";
    return false;
  }
  // declared/ is created by its first writer.
  CString trace = join(real.get(), "trace");
  if (mkdir(trace.get(), 0700) != 0 && errno != EEXIST) {
    return refuse(fault, "can't create the run directory's folder", trace.get(), errno);
  }
  if (!is_users_own(trace.get(), fault)) return false;
  if (access(trace.get(), W_OK | X_OK) != 0) return refuse(fault, "can't write to", trace.get(), errno);
  if (!describe_host(real.get(), description)) refuse(warning, "can't write run.json of", real.get(), errno);
  return true;
}

}  // namespace tailrace::flux
