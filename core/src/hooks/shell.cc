// Hooks: system, popen and pclose. libc's own functions start /bin/sh with the process's environment, in which the
// settings are hidden, so the hooks start it themselves by the rules of POSIX (system(3), popen(3)).
#include <alloca.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cancellation.h"
#include "base/sys.h"
#include "hooks/pipelines.h"
#include "hooks/stream.h"
#include "linker/real.h"
#include "session/memory_sharers.h"
#include "spawn/environment_exposure.h"
#include "spawn/injection.h"

using namespace tailrace;

namespace {

// /bin/sh -c command, in the calling thread's context. Returns posix_spawn's status.
int spawn_shell(pid_t *pid, const char *command, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes) {
  char **environment = current_environment();
  Injection injection(environment, Injection::kOtherProcess);
  Program shell("/bin/sh", environment);
  ROOM_FOR_ENVIRONMENT(injection)
  // glibc 2.38 began to protect a command that begins with '-'.
  static const bool protects = strverscmp(gnu_get_libc_version(), "2.38") >= 0;
  const char *protecting[] = {"sh", "-c", "--", command, nullptr}, *plain[] = {"sh", "-c", command, nullptr};
  const char **argv = protects ? protecting : plain;
  g_fork_generation.fetch_add(1, std::memory_order_relaxed);
  auto start = [&] {
    auto **given = const_cast<char **>(injection.build(shell, room));
    return REAL(posix_spawn)(pid, "/bin/sh", actions, attributes, const_cast<char **>(argv), given);
  };
  int status = start();
  if (status == E2BIG && shell.leave_out_settings()) status = start();
  if (status == 0) note_child(*pid, shell.carries_preload() ? ChildKind::kGiven : ChildKind::kWithout);
  return status;
}

pid_t wait_for(pid_t pid, int *status) {
  pid_t got;
  do {
    got = waitpid(pid, status, 0);
  } while (got < 0 && errno == EINTR);
  return got;
}

// While any system() of this process runs, SIGINT and SIGQUIT are ignored; the last one to end restores them.
struct IgnoredSignals {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  int users = 0;
  struct sigaction interrupt {
  }, quit{};

  void ignore() {
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    pthread_mutex_lock(&mutex);
    if (users++ == 0) {
      sigaction(SIGINT, &ignored, &interrupt);
      sigaction(SIGQUIT, &ignored, &quit);
    }
    pthread_mutex_unlock(&mutex);
  }
  void restore() {
    pthread_mutex_lock(&mutex);
    if (--users == 0) {
      sigaction(SIGINT, &interrupt, nullptr);
      sigaction(SIGQUIT, &quit, nullptr);
    }
    pthread_mutex_unlock(&mutex);
  }
};
IgnoredSignals g_ignored;

// The shell starts with the caller's mask, and the two signals as they were.
void prepare_shell(posix_spawnattr_t &attributes, const sigset_t &mask) {
  sigset_t defaults;
  sigemptyset(&defaults);
  if (g_ignored.interrupt.sa_handler != SIG_IGN) sigaddset(&defaults, SIGINT);
  if (g_ignored.quit.sa_handler != SIG_IGN) sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

constexpr int kNoShell = 127 << 8;  // as if the shell had exited with 127

// A thread that is cancelled while its command runs kills the command and restores the signals, as in glibc.
struct RunningShell {
  pid_t pid;
  sigset_t mask;
};
void cancel_shell(void *raw) {
  auto *shell = static_cast<RunningShell *>(raw);
  sys::kill(shell->pid, SIGKILL);
  while (sys::call(SYS_wait4, shell->pid, 0, 0, 0) == -EINTR) {
  }
  g_ignored.restore();
  pthread_sigmask(SIG_SETMASK, &shell->mask, nullptr);
}

pid_t wait_for_shell(RunningShell shell, int *status) {
  pid_t got;
  pthread_cleanup_push(cancel_shell, &shell);
  got = wait_for(shell.pid, status);
  pthread_cleanup_pop(0);
  return got;
}

}  // namespace

TAILRACE_HOOK int system(const char *command) {
  Call call;
  if (!call || !command) return REAL(system)(command);
  sigset_t child, mask;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  g_ignored.ignore();
  pthread_sigmask(SIG_BLOCK, &child, &mask);
  posix_spawnattr_t attributes;
  prepare_shell(attributes, mask);
  pid_t pid;
  int status = kNoShell;
  if (spawn_shell(&pid, command, nullptr, &attributes) == 0 && wait_for_shell({pid, mask}, &status) != pid) status = -1;
  posix_spawnattr_destroy(&attributes);
  int saved = errno;
  g_ignored.restore();
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  errno = saved;
  record_plain(call, Fn::f_system, status);
  return status;
}

namespace {

// The streams that popen made and that are still open.
struct Pipeline {
  FILE *stream;
  pid_t pid;
  Pipeline *next;
};
std::atomic<Pipeline *> g_pipelines;
pthread_mutex_t g_pipelines_mutex = PTHREAD_MUTEX_INITIALIZER;

struct PopenMode {
  bool reading = false, writing = false, cloexec = false, valid = true;
};
PopenMode parse_mode(const char *mode) {
  PopenMode m;
  for (; *mode; ++mode) {
    if (*mode == 'r')
      m.reading = true;
    else if (*mode == 'w')
      m.writing = true;
    else if (*mode == 'e')
      m.cloexec = true;
    else
      m.valid = false;
  }
  m.valid = m.valid && m.reading != m.writing;
  return m;
}

// POSIX: the child closes the streams of earlier popens. These descriptors are close-on-exec unless they have the
// number of the child's end.
int start_pipeline(pid_t *pid, const char *command, int child_end, int child_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_end, child_fd);
  for (Pipeline *p = g_pipelines.load(std::memory_order_relaxed); p; p = p->next) {
    int fd = fileno_unlocked(p->stream);
    if (fd >= 0 && fd != child_fd) posix_spawn_file_actions_addclose(&actions, fd);
  }
  int status = spawn_shell(pid, command, &actions, nullptr);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

}  // namespace

TAILRACE_HOOK FILE *popen(const char *command, const char *mode) {
  Call call;
  if (!call) return REAL(popen)(command, mode);
  CancellationOff uncancelled;
  PopenMode m = parse_mode(mode);
  if (!m.valid) {
    errno = EINVAL;
    return nullptr;
  }
  int ends[2];
  if (REAL(pipe2)(ends, O_CLOEXEC) < 0) return nullptr;
  int mine = ends[m.reading ? 0 : 1], theirs = ends[m.reading ? 1 : 0], child_fd = m.reading ? 1 : 0;
  auto *entry = static_cast<Pipeline *>(malloc(sizeof(Pipeline)));
  FILE *stream = entry ? REAL(fdopen)(mine, m.reading ? "r" : "w") : nullptr;
  pid_t pid = -1;
  int status = ENOMEM;
  if (stream) {
    pthread_mutex_lock(&g_pipelines_mutex);
    status = start_pipeline(&pid, command, theirs, child_fd);
    if (status == 0) {
      *entry = {stream, pid, g_pipelines.load(std::memory_order_relaxed)};
      g_pipelines.store(entry, std::memory_order_release);
    }
    pthread_mutex_unlock(&g_pipelines_mutex);
  }
  sys::close(theirs);
  if (call) forget_file(theirs);
  if (status != 0) {
    free(entry);
    if (stream)
      REAL(fclose)(stream);
    else
      sys::close(mine);
    errno = status;
    return nullptr;
  }
  if (!m.cloexec) REAL(fcntl)(mine, F_SETFD, 0);
  if (call) forget_file(mine);
  record_fd(call, Fn::f_popen, mine, pid);
  return stream;
}

static Pipeline *take_pipeline(FILE *stream) {
  if (!g_pipelines.load(std::memory_order_acquire)) return nullptr;
  pthread_mutex_lock(&g_pipelines_mutex);
  Pipeline *entry = g_pipelines.load(std::memory_order_relaxed), *before = nullptr;
  while (entry && entry->stream != stream) before = entry, entry = entry->next;
  if (entry && before) before->next = entry->next;
  if (entry && !before) g_pipelines.store(entry->next, std::memory_order_relaxed);
  pthread_mutex_unlock(&g_pipelines_mutex);
  return entry;
}

bool tailrace::close_pipeline(FILE *stream, Fn fn, int &status) {
  Pipeline *entry = take_pipeline(stream);
  if (!entry) return false;
  CancellationOff uncancelled;
  StreamCall s(stream);
  s.settle_before_close();
  Closing closing(s.call(), s ? fileno_unlocked(stream) : -1);
  s.release();
  status = -1;
  REAL(fclose)(stream);
  if (wait_for(entry->pid, &status) != entry->pid) status = -1;
  free(entry);
  closing.record(s.call(), fn, status, s.dropped());
  return true;
}

TAILRACE_HOOK int pclose(FILE *stream) {
  int status;
  // A stream from before tracing began, or not of popen: libc handles it.
  return close_pipeline(stream, Fn::f_pclose, status) ? status : REAL(pclose)(stream);
}
