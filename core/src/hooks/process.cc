// Hooks: programs and threads that a process starts. Every call that starts a program gives it the calling thread's
// context and the hidden settings (spawn/injection.h). hooks/forks.cc has the copies of a process, hooks/shell.cc
// system and popen, hooks/wait.cc the waits, hooks/process_exit.cc the end of a process, hooks/dlfcn.cc what loads
// code.
#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "base/sys.h"
#include "hooks/hook_records.h"
#include "hooks/stream.h"
#include "linker/real.h"
#include "session/child_account.h"
#include "session/ledger.h"
#include "session/record.h"
#include "session/segment.h"
#include "spawn/follow.h"
#include "spawn/injection.h"

extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void *object);

using namespace tailrace;

namespace {

// The program to be executed, by the arguments of execveat(2).
struct Executable {
  int dirfd;
  const char *path;
  int flags;

  bool is_descriptor() const { return (flags & AT_EMPTY_PATH) && path && reads_as_string(path) && !*path; }

  // A path to it that needs no dirfd.
  const char *whole_path(char *out, size_t size) const {
    bool whole = dirfd == AT_FDCWD || !path || !reads_as_string(path) || path[0] == '/';
    if (whole) return path;
    Writer w(out, size);
    w << "/proc/self/fd/";
    w.number(dirfd);
    if (*path) w << '/' << string_view(path, path_length(path));
    return w.overflowed() ? nullptr : w.c_str();
  }

  void name(NamedFile &out) const {
    if (is_descriptor() && name_open_file(dirfd, out)) return;
    name_file(dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? Lookup::kNoFollow : Lookup::kFollow, out);
  }
};

void note_execution(const Program &program, bool is_other) {
  const Execution how = program.carries_preload() ? kWithLibrary : kWithoutLibrary;
  is_other ? note_child(sys::getpid(), static_cast<ChildKind>(how)) : set_executing(how);
}

// execve with the settings injected. In a vfork child nothing is recorded, and only the stack is written, and what
// after_vfork() takes back.
template <class Exec>
int exec_traced(Fn fn, const Executable &executable, char *const *environment, Exec &&real_call) {
  if (!is_injecting() || !reads_as_environment(environment)) return real_call(environment);
  Call call;
  PendingRecord pending;
  // Of a task that only shares the memory it is no execve of this process's.
  const bool is_other = is_other_task();
  PathBuffer whole;
  Program program(executable.whole_path(whole.data(), kPathBytes), environment);
  program.leave_to_parent();
  if (call && !is_other) program.look_for_place();
  if (call && !is_other && program.path()) {
    Event e;
    e.fn = fn;
    e.file2 = static_cast<uint64_t>(program.obstacle());
    settle_all_streams();
    settle_aio();
    Account account = process_account();
    store_image_account(account);
    if (account.known) {
      e.offset = account.bytes[kRead];
      e.count = static_cast<uint64_t>(account.bytes[kWritten]);
    }
    NamedFile file;
    executable.name(file);
    pending = record_pending(call, e, file);
    // A search along PATH tries what does not exist.
    if (file.identity.type != FileType::kNone) {
      report_losses();
      seal_unnamed();
    }
  }
  Injection injection(environment, is_other ? Injection::kOtherProcess : Injection::kSameProcess);
  ROOM_FOR_ENVIRONMENT(injection)
  char *const *given = injection.build(program, room);
  ask_to_follow(FollowKind::kCaller, program, injection.tags());
  note_execution(program, is_other);
  int ret = real_call(given);
  if (errno == E2BIG && program.leave_out_settings()) {
    program.leave_to_parent();
    note_execution(program, is_other);
    amend_pending(pending, program.obstacle());
    ret = real_call(injection.build(program, room));
  }
  int saved = errno;
  if (!is_other) set_executing(kNoExecution);
  if (is_other) note_child(sys::getpid(), ChildKind::kOurs);
  Program::take_back();
  amend_pending(pending, -saved);
  errno = saved;
  return ret;
}

void record_spawn(const Call &call, Fn fn, const Program &program, pid_t child) {
  if (!call) return;
  if (child > 0) note_child(child, program.carries_preload() ? ChildKind::kGiven : ChildKind::kWithout);
  Event e;
  e.fn = fn;
  e.ret = result_of(child);
  e.count = static_cast<uint64_t>(program.obstacle());
  NamedFile file;
  if (program.path()) name_file(AT_FDCWD, program.path(), Lookup::kFollow, file);
  record_path(call, e, program.path() ? &file : nullptr);
}

constexpr size_t kMaxArguments = 1 << 16;

size_t count_arguments(va_list args) {
  size_t n = 1;
  while (va_arg(args, char *) && n < kMaxArguments) ++n;
  return n;
}

}  // namespace

TAILRACE_HOOK int execve(const char *path, char *const argv[], char *const envp[]) noexcept {
  return exec_traced(Fn::f_execve, {AT_FDCWD, path, 0}, envp,
                     [&](char *const *env) { return REAL(execve)(path, argv, env); });
}

TAILRACE_HOOK int execv(const char *path, char *const argv[]) noexcept {
  return exec_traced(Fn::f_execv, {AT_FDCWD, path, 0}, environ,
                     [&](char *const *env) { return REAL(execve)(path, argv, env); });
}

TAILRACE_HOOK int execvpe(const char *file, char *const argv[], char *const envp[]) noexcept {
  // The search makes system calls, which a seccomp filter (hooks/seccomp.h) may forbid.
  if (!is_injecting()) return REAL(execvpe)(file, argv, envp);
  PathBuffer found;
  return exec_traced(Fn::f_execvpe, {AT_FDCWD, search_path(file, found.data(), kPathBytes), 0}, envp,
                     [&](char *const *env) { return REAL(execvpe)(file, argv, env); });
}

TAILRACE_HOOK int execvp(const char *file, char *const argv[]) noexcept {
  if (!is_injecting()) return REAL(execvp)(file, argv);
  PathBuffer found;
  return exec_traced(Fn::f_execvp, {AT_FDCWD, search_path(file, found.data(), kPathBytes), 0}, environ,
                     [&](char *const *env) { return REAL(execvpe)(file, argv, env); });
}

TAILRACE_HOOK int fexecve(int fd, char *const argv[], char *const envp[]) noexcept {
  return exec_traced(Fn::f_fexecve, {fd, "", AT_EMPTY_PATH}, envp,
                     [&](char *const *env) { return REAL(fexecve)(fd, argv, env); });
}

// In glibc since 2.34; older programs call it by number.
extern "C" int execveat(int, const char *, char *const[], char *const[], int) noexcept;

TAILRACE_HOOK int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags) noexcept {
  return exec_traced(Fn::f_execveat, {dirfd, path, flags}, envp, [&](char *const *env) {
    void *real = find_real(Fn::f_execveat);
    if (real) return reinterpret_cast<decltype(&::execveat)>(real)(dirfd, path, argv, env, flags);
    return static_cast<int>(REAL(syscall)(SYS_execveat, dirfd, path, argv, env, flags));
  });
}

// The list forms: the arguments become an array on the stack.
#define COLLECT_ARGUMENTS(first)                                  \
  va_list args, counted;                                          \
  va_start(args, first);                                          \
  va_copy(counted, args);                                         \
  size_t n = count_arguments(counted) + 1;                        \
  va_end(counted);                                                \
  auto **argv = static_cast<char **>(alloca(n * sizeof(char *))); \
  argv[0] = const_cast<char *>(first);                            \
  for (size_t i = 1; i < n; ++i) argv[i] = first ? va_arg(args, char *) : nullptr;

TAILRACE_HOOK int execl(const char *path, const char *arg, ...) noexcept {
  COLLECT_ARGUMENTS(arg)
  va_end(args);
  return execv(path, argv);
}

TAILRACE_HOOK int execlp(const char *file, const char *arg, ...) noexcept {
  COLLECT_ARGUMENTS(arg)
  va_end(args);
  return execvp(file, argv);
}

TAILRACE_HOOK int execle(const char *path, const char *arg, ...) noexcept {
  COLLECT_ARGUMENTS(arg)
  auto **envp = va_arg(args, char **);
  va_end(args);
  return execve(path, argv, envp);
}

#define SPAWN_HOOK(symbol, carried)                                                                       \
  TAILRACE_HOOK int symbol(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,       \
                           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) { \
    if (!is_injecting() || !reads_as_environment(envp)) {                                                 \
      return REAL(symbol)(pid, path, actions, attributes, argv, envp);                                    \
    }                                                                                                     \
    Call call;                                                                                            \
    if (call) g_fork_generation.fetch_add(1, std::memory_order_relaxed);                                  \
    PathBuffer found;                                                                                     \
    Program program(carried, envp);                                                                       \
    Injection injection(envp, Injection::kOtherProcess);                                                  \
    ROOM_FOR_ENVIRONMENT(injection)                                                                       \
    auto given = const_cast<char **>(injection.build(program, room));                                     \
    ask_to_follow(FollowKind::kChild, program, injection.tags());                                         \
    pid_t child = -1;                                                                                     \
    int ret = REAL(symbol)(&child, path, actions, attributes, argv, given);                               \
    if (ret == E2BIG && program.leave_out_settings()) {                                                   \
      given = const_cast<char **>(injection.build(program, room));                                        \
      ret = REAL(symbol)(&child, path, actions, attributes, argv, given);                                 \
    }                                                                                                     \
    if (pid && ret == 0) *pid = child;                                                                    \
    int saved = errno;                                                                                    \
    errno = ret;                                                                                          \
    record_spawn(call, Fn::f_##symbol, program, ret == 0 ? child : -1);                                   \
    errno = saved;                                                                                        \
    return ret;                                                                                           \
  }
SPAWN_HOOK(posix_spawn, path)
SPAWN_HOOK(posix_spawnp, search_path(path, found.data(), kPathBytes))

namespace {

struct ThreadStart {
  void *(*function)(void *);
  void *argument;
  Context *context;
  uint64_t region;
  uint64_t began_ticks;
  std::atomic<uint32_t> is_taken;
};

// Of threads that were made and have not begun. Not in the core's memory, which the program may take meanwhile
// (session/give_way.h).
constexpr uint32_t kMostStarting = 4096;
ThreadStart g_starting[kMostStarting];

// Null: so many wait for a processor.
ThreadStart *take_start() {
  static std::atomic<uint32_t> next;
  for (uint32_t i = 0; i < kMostStarting; ++i) {
    ThreadStart &start = g_starting[next.fetch_add(1, std::memory_order_relaxed) % kMostStarting];
    if (start.is_taken.load(std::memory_order_relaxed)) continue;
    if (!start.is_taken.exchange(1, std::memory_order_acquire)) return &start;
  }
  return nullptr;
}

void give_back(ThreadStart *start) { start->is_taken.store(0, std::memory_order_release); }

// The function called here is the one in which ThreadSanitizer begins its account of the thread. Code before it can't
// be instrumented, so the block is not freed there.
#ifdef __SANITIZE_THREAD__
#define TAILRACE_BEFORE_SANITIZER __attribute__((no_sanitize("thread")))
constexpr bool kGivesBack = false;
#else
#define TAILRACE_BEFORE_SANITIZER
constexpr bool kGivesBack = true;
#endif

// A thread begins with its creator's context, and when that makes it: from then on it may wait for a processor.
TAILRACE_BEFORE_SANITIZER void *start_thread(void *raw) {
  auto *start = static_cast<ThreadStart *>(raw);
  void *(*function)(void *) = start->function;
  void *argument = start->argument;
  t_context = start->context;
  t_region = start->region;
  t_thread_began = start->began_ticks;
  if (kGivesBack) {
    give_back(start);
    watch_thread_end();
  }
  return function(argument);
}

}  // namespace

TAILRACE_HOOK int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                                 void *argument) noexcept {
  g_threads_made.fetch_add(1, std::memory_order_relaxed);
  ThreadStart *start = enter() ? take_start() : nullptr;
  if (!start) return REAL(pthread_create)(thread, attributes, function, argument);
  start->function = function;
  start->argument = argument;
  start->context = current_context();
  start->region = t_region;
  start->began_ticks = now_ticks();
  int ret = REAL(pthread_create)(thread, attributes, start_thread, start);
  if (ret != 0) give_back(start);
  return ret;
}

// What pthread_atfork calls; it is a part of each object that uses it. Our handlers come before the first of all. Under
// a sanitizer this is called before the runtime is up.
#ifndef TAILRACE_SANITIZED
TAILRACE_HOOK int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void *object) {
  register_fork_handlers();
  return REAL(__register_atfork)(prepare, parent, child, object);
}
#endif
