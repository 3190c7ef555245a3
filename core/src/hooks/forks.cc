// Hooks: calls that make a process of the calling one: fork, vfork, clone. The child of fork finds out at its first
// event that it is one (session/session.h); tasks that share this process's memory are in session/memory_sharers.h.
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

#include "linker/real.h"
#include "session/memory_sharers.h"
#include "session/record.h"
#include "spawn/injection.h"

// glibc 2.34 and later; clone(2)'s other name.
extern "C" pid_t _Fork() noexcept;
extern "C" int __clone(int (*)(void *), void *, int, void *, ...) noexcept;

using namespace tailrace;

namespace {

// Open file descriptions are shared from here on.
void begin_fork(const Call &call) {
  if (call) g_fork_generation.fetch_add(1, std::memory_order_relaxed);
}

void record_forked(const Call &call, Fn fn, pid_t pid) {
  if (call && pid > 0) note_child(pid, ChildKind::kForked);
  record_plain(call, fn, pid);
}

}  // namespace

TAILRACE_HOOK pid_t fork() noexcept {
  Call call;
  begin_fork(call);
  pid_t pid = REAL(fork)();
  if (pid != 0) record_forked(call, Fn::f_fork, pid);
  return pid;
}

// Calls no handler of pthread_atfork.
TAILRACE_HOOK pid_t _Fork() noexcept {
  Call call;
  begin_fork(call);
  if (call) hold_for_fork();
  pid_t pid = REAL(_Fork)();
  const int saved = errno;
  if (call) pid == 0 ? let_go_in_child() : let_go_in_parent();
  errno = saved;
  if (pid != 0) record_forked(call, Fn::f__Fork, pid);
  return pid;
}

namespace {
void record_vfork(const Call &call, long pid) {
  if (!call) return;
  int saved = errno;
  NamedFile file;
  Event e;
  e.fn = Fn::f_vfork;
  e.ret = result_of(pid);
  Obstacle obstacle = pid > 0 ? Program::take_from_child(static_cast<int>(pid), file) : Obstacle::kNone;
  e.count = static_cast<uint64_t>(obstacle);
  record_path(call, e, obstacle == Obstacle::kNone ? nullptr : &file);
  errno = saved;
}
}  // namespace

// The child of vfork runs on its parent's stack and memory and returns from the function that called vfork, so no C
// function is possible in between. The assembly keeps the return address, and what before_vfork() returned, in
// registers, which the kernel saves, and calls a function of ours on both sides. Not under ThreadSanitizer, whose
// account of a thread two processes can't share.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
extern "C" {
#ifdef __SANITIZE_ADDRESS__
// Clears what the child's frames left in the shadow of the stack, as libasan's own vfork does, which ours replaces.
void __asan_handle_vfork(void *stack);
#else
static void __asan_handle_vfork(void *) {}
#endif
__attribute__((visibility("hidden"), used)) BeforeVfork tailrace_before_vfork() {
  Call call;
  begin_fork(call);
  const BeforeVfork before = before_vfork();
  if (call) before.state->began_ticks = call.t0();
  return before;
}
__attribute__((visibility("hidden"), used)) void tailrace_in_vfork_child(BeforeVfork before) {
  enter_vfork_child(before);
}
__attribute__((visibility("hidden"), used)) long tailrace_after_vfork(long pid, BeforeVfork before) {
  __asan_handle_vfork(__builtin_frame_address(0));
  after_vfork(before, static_cast<pid_t>(pid));
  if (pid < 0) {
    errno = static_cast<int>(-pid);
    pid = -1;
  }
  Call call(before.state->began_ticks);
  record_vfork(call, pid);
  return pid;
}
}
__asm__(R"(
  .text
  .globl vfork
  .type vfork, @function
vfork:
  subq $8, %rsp
  call tailrace_before_vfork
  addq $8, %rsp
  popq %rdi
  movq %rax, %rsi
  movl $58, %eax
  syscall
  pushq %rdi
  testq %rax, %rax
  jz 1f
  subq $8, %rsp
  movq %rax, %rdi
  call tailrace_after_vfork
  addq $8, %rsp
  ret
1:
  subq $8, %rsp
  movq %rsi, %rdi
  movq %rdx, %rsi
  call tailrace_in_vfork_child
  addq $8, %rsp
  xorl %eax, %eax
  ret
  .size vfork, .-vfork
)");
#else
// Elsewhere vfork is fork, as POSIX allows.
TAILRACE_HOOK pid_t vfork() noexcept {
  Call call;
  begin_fork(call);
  pid_t pid = REAL(fork)();
  if (call && pid > 0) note_child(pid, ChildKind::kForked);
  if (pid != 0) record_vfork(call, pid);
  return pid;
}
#endif

// libc forks in it and puts /dev/null on the standard descriptors, without hooks.
TAILRACE_HOOK int daemon(int nochdir, int noclose) noexcept {
  if (enter()) g_fork_generation.fetch_add(1, std::memory_order_relaxed);
  int ret = REAL(daemon)(nochdir, noclose);
  if (ret == 0 && !noclose && enter()) forget_files(0, 2);
  return ret;
}

namespace {

// The arguments of clone(2).
struct CloneCall {
  int (*function)(void *);
  void *stack;
  int flags;
  void *argument;
  pid_t *parent_tid;
  void *tls;
  int *child_tid;
  BeforeVfork before;

  bool has(int flag) const { return (flags & flag) != 0; }
  int make() const { return REAL(clone)(function, stack, flags, argument, parent_tid, tls, child_tid); }
  // The child begins in `first`, with `begins_with`.
  int make_by(int (*first)(void *), void *begins_with) const {
    return REAL(clone)(first, stack, flags, begins_with, parent_tid, tls, child_tid);
  }
};

int start_forked(void *raw) {
  const auto *given = static_cast<const CloneCall *>(raw);
  let_go_in_child();
  return given->function(given->argument);
}

int clone_as_fork(CloneCall &given) {
  // Under CLONE_VFORK the caller would hold the locks until the child's end.
  if (given.has(CLONE_VFORK)) return given.make();
  hold_for_fork();
  const int pid = given.make_by(start_forked, &given);
  const int saved = errno;
  let_go_in_parent();
  errno = saved;
  return pid;
}

int start_as_vfork(void *raw) {
  const auto *given = static_cast<const CloneCall *>(raw);
  enter_vfork_child(given->before);
  return given->function(given->argument);
}

int start_sharer(void *raw) {
  auto *task = static_cast<SharingTask *>(raw);
  enter_sharer(task, false);
  return task->function(task->argument);
}

int start_sharer_with_tls(void *raw) {
  auto *task = static_cast<SharingTask *>(raw);
  enter_sharer(task, true);
  return task->function(task->argument);
}

// The parent stands still until the child has executed a program or ended.
int clone_as_vfork(CloneCall &given) {
  given.before = before_vfork();
  const int pid = given.make_by(start_as_vfork, &given);
  const int saved = errno;
  after_vfork(given.before, pid);
  // What the child closed and opened is not known.
  if (given.has(CLONE_FILES)) forget_files(0, kMaxTrackedFd);
  errno = saved;
  return pid;
}

int clone_beside(const CloneCall &given) {
  const bool own_tls = given.has(CLONE_SETTLS);
  SharingTask *task = expect_sharer(given.function, given.argument, given.has(CLONE_FILES), own_tls);
  if (!task) return given.make();
  const int pid = given.make_by(own_tls ? start_sharer_with_tls : start_sharer, task);
  const int saved = errno;
  keep_sharer(task, pid);
  errno = saved;
  return pid;
}

}  // namespace

TAILRACE_HOOK int clone(int (*function)(void *), void *stack, int flags, void *argument, ...) noexcept {
  va_list args;
  va_start(args, argument);
  CloneCall given{function, stack, flags, argument, va_arg(args, pid_t *), va_arg(args, void *), va_arg(args, int *),
                  {}};
  va_end(args);
  Call call;
  if (!call || !function || !stack || given.has(CLONE_THREAD)) return given.make();
  begin_fork(call);
  if (!given.has(CLONE_VM)) {
    const int pid = clone_as_fork(given);
    record_forked(call, Fn::f_clone, pid);
    return pid;
  }
  const bool stands_still = given.has(CLONE_VFORK) && !given.has(CLONE_SETTLS);
  const int pid = stands_still ? clone_as_vfork(given) : clone_beside(given);
  record_plain(call, Fn::f_clone, pid);
  return pid;
}

TAILRACE_HOOK int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...) noexcept {
  va_list args;
  va_start(args, argument);
  auto *parent_tid = va_arg(args, pid_t *);
  void *tls = va_arg(args, void *);
  auto *child_tid = va_arg(args, int *);
  va_end(args);
  return clone(function, stack, flags, argument, parent_tid, tls, child_tid);
}
