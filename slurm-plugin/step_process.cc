// See step_process.h.
#include "step_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

namespace tailrace::slurm {
namespace {

int64_t now_ms() { return static_cast<int64_t>(monotonic_ns() / 1'000'000); }

// Waits until the descriptor can be read, up to `until`.
bool is_readable(int fd, int64_t until) {
  for (;;) {
    struct pollfd one = {fd, POLLIN, 0};
    const int64_t left = until - now_ms();
    const int n = poll(&one, 1, left > 0 ? static_cast<int>(left) : 0);
    if (n >= 0 || errno != EINTR) return n > 0;
  }
}

// In the forked child of slurmstepd, which has threads: only what signal-safety(7) allows. The real and the saved ids
// become the effective ones, the user's, for good.
[[noreturn]] void become_user_and_execute(int fd, const char *program, char *const *words, char *const *environment) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0) _exit(126);
  if (user != 0 && (setuid(0) == 0 || getuid() != user)) _exit(126);
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &by_default, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDWR);
  if (dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(null, 2) < 0) _exit(126);
  // A descriptor of slurmstepd that stays open would hold up the step's end.
  if (close_range(3, ~0U, 0) != 0) {
    for (int other = 3; other < 4096; ++other) close(other);
  }
  execve(program, words, environment);
  _exit(127);
}

}  // namespace

StepProcess::~StepProcess() { give_up(); }

void StepProcess::give_up() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int StepProcess::start(const char *program, char *const *words, char *const *environment) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const pid_t child = fork();
  if (child == 0) become_user_and_execute(ends[1], program, words, environment);
  const int error = child < 0 ? errno : 0;
  close(ends[1]);
  fd_ = ends[0];
  // The program forks, and its first process ends at once.
  int status = 0;
  if (!error) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  }
  if (error || status != 0) give_up();
  return error ? error : status ? ENOEXEC : 0;
}

void StepProcess::tell(string_view line) {
  if (runs()) send(fd_, line.data(), line.size(), MSG_NOSIGNAL);
}

bool StepProcess::ask(string_view line, int timeout_ms, string_view &answer) {
  if (!runs()) return false;
  if (!line.empty() && send(fd_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    give_up();
    return false;
  }
  const int64_t until = now_ms() + timeout_ms;
  size_t n = 0;
  while (n < sizeof answer_ && is_readable(fd_, until)) {
    const ssize_t more = read(fd_, answer_ + n, sizeof answer_ - n);
    if (more <= 0) break;
    n += static_cast<size_t>(more);
    if (n >= 2 && answer_[n - 1] == 0 && answer_[n - 2] == 0) {
      answer = {answer_, n - 1};
      return true;
    }
  }
  give_up();
  return false;
}

bool StepProcess::finish(int timeout_ms) {
  if (!runs()) return true;
  shutdown(fd_, SHUT_WR);
  const int64_t until = now_ms() + timeout_ms;
  bool ended = false;
  while (!ended && is_readable(fd_, until)) ended = read(fd_, answer_, sizeof answer_) <= 0;
  give_up();
  return ended;
}

}  // namespace tailrace::slurm
