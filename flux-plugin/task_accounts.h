// The kernel's byte accounting of a job's tasks, so that a task that left no trace shows in the run
// (docs/trace-format.md, "accounts").
//
// A zombie's /proc/PID/io can only be opened by root, but a descriptor that was opened before the end still reads it
// then: all bytes of the task and of the children that it waited for. The shell reaps its tasks in the callback of
// SIGCHLD. A watcher of the highest priority runs before that and reads what has ended. A task that ends between the
// two has no account.
//
// Rejected: the growth of the shell's own account at each wait, since several tasks are reaped in one call.
#pragma once

#include <flux/core.h>
#include <sys/types.h>

#include "base/processor_time.h"
#include "json.h"

namespace tailrace::flux {

class TaskAccounts {
 public:
  TaskAccounts() = default;
  ~TaskAccounts();
  TaskAccounts(const TaskAccounts &) = delete;
  TaskAccounts &operator=(const TaskAccounts &) = delete;

  // A task was forked; `program`: its file, or null.
  void begin(flux_reactor_t *reactor, pid_t pid, CString program);
  // A task was reaped with this wait status.
  void end(pid_t pid, int status);
  // Writes the accounts of all tasks that have ended to the run. 0, or -errno.
  int write(const char *run) const;

 private:
  struct Task {
    pid_t pid;
    int fd;  // of /proc/PID/io; -1: none, or read
    bool known;
    long long bytes[2];
    ProcessTime time;
    CString program;
    Task *next;
  };

  static void before_reaping(flux_reactor_t *, flux_watcher_t *, int, void *self);
  static void read_account(Task &task);
  static void release(Task *task);

  Task *tasks_ = nullptr;
  flux_watcher_t *watcher_ = nullptr;
  Json rows_;
};

}  // namespace tailrace::flux
