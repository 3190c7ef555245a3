// See task_accounts.h.
#include "task_accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "base/clock.h"
#include "format/host_facts.h"
#include "format/journal.h"
#include "format/program.h"

// Of flux-core 0.67 and later; before, there are no accounts.
extern "C" __attribute__((weak)) void flux_watcher_set_priority(flux_watcher_t *, int);
extern "C" __attribute__((weak)) void flux_watcher_unref(flux_watcher_t *);

namespace tailrace::flux {
namespace {

constexpr int kHighestPriority = 2;

bool take_number(const char *text, const char *key, long long &value) {
  const char *found = strstr(text, key);
  return found && sscanf(found + strlen(key), "%lld", &value) == 1;
}

bool has_ended(idtype_t which, pid_t pid) {
  siginfo_t info;
  info.si_pid = 0;
  return waitid(which, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

CString host_name() { return CString(strdup(HostName().c_str())); }

// <run>/accounts/<host>-<pid of this shell>-<time>.json
CString name_file(const char *directory) {
  char stem[512];
  Writer w(stem, sizeof stem);
  write_process_stem(w, HostName().view(), getpid(), realtime_ns());
  return formatted("%s/%s.json", directory, w.c_str());
}

}  // namespace

TaskAccounts::~TaskAccounts() {
  flux_watcher_destroy(watcher_);
  while (Task *task = tasks_) {
    tasks_ = task->next;
    if (task->fd >= 0) close(task->fd);
    release(task);
  }
}

void TaskAccounts::release(Task *task) {
  task->~Task();
  free(task);
}

void TaskAccounts::begin(flux_reactor_t *reactor, pid_t pid, CString program) {
  if (!flux_watcher_set_priority || !flux_watcher_unref) return;
  void *memory = malloc(sizeof(Task));
  if (!memory) return;
  CString path = formatted("/proc/%d/io", static_cast<int>(pid));
  int fd = path ? open(path.get(), O_RDONLY | O_CLOEXEC) : -1;
  tasks_ = new (memory) Task{pid, fd, false, {}, {}, static_cast<CString &&>(program), tasks_};
  if (watcher_) return;
  watcher_ = flux_check_watcher_create(reactor, before_reaping, this);
  if (!watcher_) return;
  flux_watcher_set_priority(watcher_, kHighestPriority);
  // The shell's end must not wait for it.
  flux_watcher_unref(watcher_);
  flux_watcher_start(watcher_);
}

void TaskAccounts::before_reaping(flux_reactor_t *, flux_watcher_t *, int, void *self) {
  if (!has_ended(P_ALL, 0)) return;
  // The reactor reaps all that have ended until then, so also who ends while another one's account is read.
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (Task *task = static_cast<TaskAccounts *>(self)->tasks_; task; task = task->next) {
      if (task->fd < 0 || !has_ended(P_PID, task->pid)) continue;
      read_account(*task);
      is_new = true;
    }
  }
}

void TaskAccounts::read_account(Task &task) {
  char text[512];
  ssize_t n = read(task.fd, text, sizeof text - 1);
  close(task.fd);
  task.fd = -1;
  int64_t bytes_read = 0;
  task.time = ended_process_time(static_cast<int>(task.pid), bytes_read);
  if (n <= 0) return;
  text[n] = 0;
  task.known = take_number(text, "rchar: ", task.bytes[0]) && take_number(text, "wchar: ", task.bytes[1]);
}

void TaskAccounts::end(pid_t pid, int status) {
  Task **place = &tasks_;
  while (*place && (*place)->pid != pid) place = &(*place)->next;
  Task *task = *place;
  if (!task) return;
  *place = task->next;
  if (task->fd >= 0) close(task->fd);
  if (task->known) {
    CString host = host_name();
    Json row(json_pack("{s:s s:i s:i s:I s:I s:I}", "host", host.get(), "pid", static_cast<int>(pid), "status", status,
                       "rchar", static_cast<json_int_t>(task->bytes[0]), "wchar",
                       static_cast<json_int_t>(task->bytes[1]), "ns", static_cast<json_int_t>(realtime_ns())));
    const struct {
      const char *key;
      int64_t ns;
    } times[] = {
        {"run_ns", task->time.run_ns}, {"ready_ns", task->time.ready_ns}, {"ready_of_ns", task->time.ready_of_ns}};
    for (const auto &time : times) {
      if (row && time.ns >= 0) json_object_set_new(row.get(), time.key, json_integer(time.ns));
    }
    int64_t bytes_read = 0;
    Obstacle obstacle = task->program ? find_obstacle(task->program.get(), bytes_read) : Obstacle::kNone;
    if (row && obstacle != Obstacle::kNone) {
      string_view word = kObstacleNames[static_cast<int>(obstacle)];
      json_object_set_new(row.get(), "untraced", json_stringn(word.data(), word.size()));
      json_object_set_new(row.get(), "program", json_string(task->program.get()));
    }
    if (!rows_) rows_ = Json(json_array());
    if (row && rows_) json_array_append(rows_.get(), row.get());
  }
  release(task);
}

int TaskAccounts::write(const char *run) const {
  if (!rows_) return 0;
  CString directory = formatted("%s/accounts", run), text(json_dumps(rows_.get(), JSON_COMPACT));
  if (!directory || !text) return -ENOMEM;
  if (mkdir(directory.get(), 0700) != 0 && errno != EEXIST) return -errno;
  CString path = name_file(directory.get());
  int fd = path ? open(path.get(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
  if (fd < 0) return -errno;
  size_t n = strlen(text.get());
  bool whole = ::write(fd, text.get(), n) == static_cast<ssize_t>(n);
  int status = whole ? 0 : -EIO;
  close(fd);
  if (!whole) unlink(path.get());
  return status;
}

}  // namespace tailrace::flux
