// See base/descriptor_table.h. The task is a thread, made by clone(2): no wait(2) returns it. POSIX locks belong to the
// table, so its close(2) releases none of the program's.
#include "base/descriptor_table.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>

#include "base/own_memory.h"
#include "base/private_stack.h"
#include "base/sys.h"

namespace tailrace {
namespace {

struct TableTask {
  void (*function)(void *);
  void *argument;
  bool is_done;
};

// All numbers are free, and none of the program's files is closed in this table at the end, which would write it out on
// a network's file system. Linux 5.9; not under a filter, which is examined for older calls.
void run_with_none(void *raw) {
  auto *task = static_cast<TableTask *>(raw);
  constexpr long kCloseRange = 436, kUnshare = 1 << 1;
  if (sys::call(kCloseRange, 0, ~0U, kUnshare) < 0) return;
  task->function(task->argument);
  task->is_done = true;
}

void run_with_copy(void *raw) {
  auto *task = static_cast<TableTask *>(raw);
  // Any descriptor serves; most programs have one of the first.
  for (int fd = 0; fd < 4096 && sys::close(fd) == -EBADF; ++fd) {
  }
  task->function(task->argument);
  task->is_done = true;
}

// The task starts on the new stack, calls the function and exits. Returns the task's number or -errno.
long start_task(char *stack_top, volatile int *alive, long files, void (*function)(void *), void *argument) {
  const long flags = files | CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID |
                     CLONE_CHILD_CLEARTID;
#if defined(__x86_64__)
  long ret;
  register long r10 __asm__("r10") = sys::pointer(alive);
  register void (*entry)(void *) __asm__("r12") = function;
  register void *given __asm__("r13") = argument;
  __asm__ volatile(
      "syscall\n"
      "test %%rax, %%rax\n"
      "jnz 1f\n"
      "xorl %%ebp, %%ebp\n"
      "movq %%r13, %%rdi\n"
      "call *%%r12\n"
      "xorl %%edi, %%edi\n"
      "movl %[exit], %%eax\n"
      "syscall\n"
      "hlt\n"
      "1:\n"
      : "=a"(ret)
      : "a"(SYS_clone), "D"(flags), "S"(stack_top), "d"(alive), "r"(r10), "r"(entry), "r"(given), [exit] "i"(SYS_exit)
      : "rcx", "r11", "memory");
  return ret;
#else
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = flags;
  register char *x1 __asm__("x1") = stack_top;
  register volatile int *x2 __asm__("x2") = alive;
  register long x3 __asm__("x3") = 0;
  register volatile int *x4 __asm__("x4") = alive;
  register void (*entry)(void *) __asm__("x19") = function;
  register void *given __asm__("x20") = argument;
  __asm__ volatile(
      "svc 0\n"
      "cbnz x0, 1f\n"
      "mov x29, xzr\n"
      "mov x0, x20\n"
      "blr x19\n"
      "mov x0, xzr\n"
      "mov x8, %[exit]\n"
      "svc 0\n"
      "1:\n"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(entry), "r"(given), [exit] "i"(SYS_exit)
      : "memory");
  return x0;
#endif
}

void run_task(char *stack, long files, void (*entry)(void *), TableTask &task) {
  volatile int alive = 1;
  if (start_task(stack + kPrivateStackBytes, &alive, files, entry, &task) <= 0) return;
  // The kernel clears `alive` and wakes the caller when the task no longer uses its stack.
  while (int value = alive) sys::futex(&alive, FUTEX_WAIT, value);
}

}  // namespace

bool call_in_own_table(void (*function)(void *), void *argument, bool is_filtered) {
  auto *stack = static_cast<char *>(own_memory::pages(kPrivateStackBytes));
  if (!stack) return false;
  TableTask task{function, argument, false};
  if (!is_filtered) run_task(stack, CLONE_FILES, run_with_none, task);
  if (!task.is_done) run_task(stack, 0, run_with_copy, task);
  own_memory::release(stack, kPrivateStackBytes);
  return task.is_done;
}

}  // namespace tailrace
