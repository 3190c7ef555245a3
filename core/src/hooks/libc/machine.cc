// Hooks: what libc reads of the machine and the process out of /sys and /proc, and named semaphores
// (hooks/libc/libc_hooks.h).
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "hooks/libc/libc_hooks.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" long __sysconf(int);

#ifndef TAILRACE_SANITIZED  // whose runtimes call these before they, or a new thread, can run instrumented code
static bool is_in_a_file(int name) {
  return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF || name == _SC_NGROUPS_MAX ||
         name == _SC_SIGQUEUE_MAX;
}
RARE_HOOK(long, sysconf, (int name) noexcept, (name), is_in_a_file(name))
RARE_HOOK(long, __sysconf, (int name), (name), is_in_a_file(name))
RARE_HOOK(int, pthread_getattr_np, (pthread_t thread, pthread_attr_t *out) noexcept, (thread, out), true)
#endif
RARE_HOOK(int, get_nprocs, () noexcept, (), true)
RARE_HOOK(int, get_nprocs_conf, () noexcept, (), true)
RARE_HOOK(int, getloadavg, (double *loads, int n) noexcept, (loads, n), true)
RARE_HOOK(long, gethostid, (), (), true)
RARE_HOOK(int, pthread_getname_np, (pthread_t thread, char *name, size_t n) noexcept, (thread, name, n), true)
RARE_HOOK(int, pthread_setname_np, (pthread_t thread, const char *name) noexcept, (thread, name), true)

// A new semaphore is written to /dev/shm and then mapped.
TAILRACE_HOOK sem_t *sem_open(const char *name, int flags, ...) noexcept {
  va_list args;
  va_start(args, flags);
  auto mode = va_arg(args, mode_t);
  auto value = va_arg(args, unsigned);
  va_end(args);
  return in_libc(Fn::f_sem_open, Leave::kAlways, [&] { return REAL(sem_open)(name, flags, mode, value); });
}
