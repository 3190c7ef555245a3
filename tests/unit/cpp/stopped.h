// A process that is stopped before each of its system calls: to change the world there, to kill it, to note its calls.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tailrace::test {

struct SystemCall {
  long number;
  long args[6];
};

// Does `work` in a process of its own, and stops that before each system call; `kill_before` says of a call whether the
// process is killed there. False: it was not.
inline bool run_stopping(const std::function<void()> &work,
                         const std::function<bool(const SystemCall &)> &kill_before) {
  int pid = fork();
  if (pid == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
  bool killed = false;
  while (!killed && ptrace(PTRACE_SYSCALL, pid, nullptr, 0) == 0 && waitpid(pid, &status, 0) == pid &&
         WIFSTOPPED(status)) {
    __ptrace_syscall_info info{};
    EXPECT_GT(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info), 0);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    SystemCall call{static_cast<long>(info.entry.nr), {}};
    for (int i = 0; i < 6; ++i) call.args[i] = static_cast<long>(info.entry.args[i]);
    killed = kill_before(call);
  }
  if (killed) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  EXPECT_TRUE(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return killed;
}

// What a sealer does, in its order: L for a look by a lease, P for a pause, R for the removal of a file.
class Looks {
 public:
  void note(const SystemCall &call) {
    if (call.number == SYS_fcntl && call.args[1] == F_SETLEASE && call.args[2] == F_RDLCK) add('L');
    if (call.number == SYS_nanosleep || call.number == SYS_clock_nanosleep) add('P');
    if (call.number == SYS_unlinkat && call.args[2] == 0) add('R');
  }
  int looks() const { return count('L'); }
  int pauses() const { return count('P'); }
  // Without the pauses: of those there are fewer where the sealer itself was kept waiting.
  std::string order() const {
    std::string without;
    for (char c : all_) without += c == 'P' ? "" : std::string(1, c);
    return without;
  }
  // When the n-th look began, in ns of the monotonic clock.
  uint64_t look_ns(size_t n) const { return look_ns_.at(n); }

 private:
  void add(char c) {
    all_ += c;
    if (c == 'L') look_ns_.push_back(monotonic_ns());
  }
  int count(char wanted) const {
    int n = 0;
    for (char c : all_) n += c == wanted;
    return n;
  }

  std::string all_;
  std::vector<uint64_t> look_ns_;
};

// A process in execve: it had `file` mapped, and the program that it executes opens it again in go_on().
class Executing {
 public:
  explicit Executing(const std::string &file) : pid_(fork()) {
    if (pid_ == 0) map_and_execute(file.c_str());
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSTOPPED(status));
    EXPECT_EQ(ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL),
              0);
    // The kernel closes what was mapped on its way to the new program, which is there at its first call.
    bool executes = false;
    __ptrace_syscall_info info{};
    while (!(executes && info.op == PTRACE_SYSCALL_INFO_ENTRY) && ptrace(PTRACE_SYSCALL, pid_, nullptr, 0) == 0 &&
           waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status)) {
      executes = executes || status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8);
      EXPECT_GT(ptrace(PTRACE_GET_SYSCALL_INFO, pid_, sizeof info, &info), 0);
    }
    EXPECT_TRUE(executes);
  }
  ~Executing() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Executing(const Executing &) = delete;
  Executing &operator=(const Executing &) = delete;

  // Returns when the new program has the file.
  void go_on() const {
    int status = 0;
    EXPECT_EQ(ptrace(PTRACE_CONT, pid_, nullptr, 0), 0);
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
  }

 private:
  [[noreturn]] static void map_and_execute(const char *file) {
    int fd = open(file, O_RDWR | O_CLOEXEC);
    void *map = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    if (map != MAP_FAILED) execl("/bin/sh", "sh", "-c", "exec 3<>\"$0\" && kill -STOP $$", file, nullptr);
    _exit(127);
  }

  int pid_;
};

inline int count_journals(const std::string &directory) {
  int found = 0;
  DIR *dir = opendir(directory.c_str());
  while (dirent *entry = dir ? readdir(dir) : nullptr) {
    std::string name = entry->d_name;
    found += name.size() > 3 && name.substr(name.size() - 3) == ".tj";
  }
  if (dir) closedir(dir);
  return found;
}

}  // namespace tailrace::test
