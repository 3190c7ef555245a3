// Hooks: calls that make, copy and close descriptors. Every call that can close a descriptor must be here: otherwise
// the bytes of the next file with that number would be attributed to the old file.
#include <mqueue.h>
#include <pthread.h>
#include <pty.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utmp.h>

#include "format/lock_kind.h"
#include "hooks/hook_records.h"
#include "layers/python_functions.h"
#include "linker/real.h"

using namespace tailrace;

// Names that glibc exports but its headers don't declare here.
extern "C" {
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
mqd_t __mq_open_2(const char *, int);
// glibc 2.36 and later, whose header lacks the linkage as C.
int pidfd_open(pid_t, unsigned) noexcept;
int pidfd_getfd(int, int, unsigned) noexcept;
}

namespace tailrace {

void record_open(const Call &call, Fn fn, int fd, int dirfd, const char *path, int flags) {
  if (!call || !enter()) return;
  int saved = errno;
  NamedFile file;
  Event e;
  e.fn = fn;
  e.count = static_cast<uint64_t>(static_cast<unsigned>(flags));
  if (fd >= 0) {
    e.ret = fd;
    record_path(call, e, file_opened(fd, {dirfd, path, flags}, file) ? &file : nullptr);
  } else if (reads_as_string_after(path, saved)) {
    name_file(dirfd, path, Lookup::kNot, file);
    e.ret = -saved;
    record_path(call, e, &file);
  }
  if (__builtin_expect(g_python_waits.load(std::memory_order_relaxed), 0)) start_python_functions();
  errno = saved;
}

void record_made(const Call &call, Fn fn, int fd) {
  if (fd < 0) {
    record_plain(call, fn, fd);
  } else {
    record_open(call, fn, fd, AT_FDCWD, nullptr, O_RDWR);
  }
}

void record_dup(const Call &call, Fn fn, int oldfd, int newfd) {
  if (!call || !enter()) return;
  int saved = errno;
  if (newfd >= 0) {
    file_of(oldfd);
    file_duplicated(oldfd, newfd);
  }
  errno = saved;
  record_fd(call, fn, oldfd, newfd);
}

void record_pair(const Call &call, Fn fn, const int fds[2], int ret) {
  if (!call || !enter()) return;
  int saved = errno;
  Event e;
  e.fn = fn;
  e.ret = ret < 0 ? -saved : 0;
  NamedFile a, b;
  bool named_a = ret == 0 && file_opened(fds[0], {AT_FDCWD, nullptr, 0}, a);
  bool named_b = ret == 0 && file_opened(fds[1], {AT_FDCWD, nullptr, 0}, b);
  // Both ends of a pipe are one file.
  record_path(call, e, named_a ? &a : nullptr, named_b && b.hash != a.hash ? &b : nullptr);
  errno = saved;
}

void set_appending(int fd, int flags) {
  OpenFile *file = known_file_of(fd);
  const bool append = (flags & O_APPEND) != 0;
  if (!file || file->append == append) return;
  // In between only the kernel had the position.
  const int64_t now = append || !is_seekable(file) ? -1 : sys::lseek(fd, 0, SEEK_CUR);
  if (now >= 0) file->position.store(now, std::memory_order_relaxed);
  file->append = append;
}

}  // namespace tailrace

namespace {

bool takes_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

// Declares `mode`, which callers pass only with flags that can make a file (open(2)).
#define TAKE_MODE(flags)         \
  mode_t mode = 0;               \
  if (takes_mode(flags)) {       \
    va_list args;                \
    va_start(args, flags);       \
    mode = va_arg(args, mode_t); \
    va_end(args);                \
  }

#define OPEN_HOOK(symbol)                                         \
  TAILRACE_HOOK int symbol(const char *path, int flags, ...) {    \
    TAKE_MODE(flags)                                              \
    Call call;                                                    \
    int fd = REAL(symbol)(path, flags, mode);                     \
    record_open(call, Fn::f_##symbol, fd, AT_FDCWD, path, flags); \
    return fd;                                                    \
  }
OPEN_HOOK(open)
OPEN_HOOK(open64)

#define OPENAT_HOOK(symbol)                                               \
  TAILRACE_HOOK int symbol(int dirfd, const char *path, int flags, ...) { \
    TAKE_MODE(flags)                                                      \
    Call call;                                                            \
    int fd = REAL(symbol)(dirfd, path, flags, mode);                      \
    record_open(call, Fn::f_##symbol, fd, dirfd, path, flags);            \
    return fd;                                                            \
  }
OPENAT_HOOK(openat)
OPENAT_HOOK(openat64)

#define OPEN_2_HOOK(symbol)                                       \
  TAILRACE_HOOK int symbol(const char *path, int flags) {         \
    Call call;                                                    \
    int fd = REAL(symbol)(path, flags);                           \
    record_open(call, Fn::f_##symbol, fd, AT_FDCWD, path, flags); \
    return fd;                                                    \
  }
OPEN_2_HOOK(__open_2)
OPEN_2_HOOK(__open64_2)

#define OPENAT_2_HOOK(symbol)                                        \
  TAILRACE_HOOK int symbol(int dirfd, const char *path, int flags) { \
    Call call;                                                       \
    int fd = REAL(symbol)(dirfd, path, flags);                       \
    record_open(call, Fn::f_##symbol, fd, dirfd, path, flags);       \
    return fd;                                                       \
  }
OPENAT_2_HOOK(__openat_2)
OPENAT_2_HOOK(__openat64_2)

#define CREAT_HOOK(symbol)                                                               \
  TAILRACE_HOOK int symbol(const char *path, mode_t mode) {                              \
    Call call;                                                                           \
    int fd = REAL(symbol)(path, mode);                                                   \
    record_open(call, Fn::f_##symbol, fd, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC); \
    return fd;                                                                           \
  }
CREAT_HOOK(creat)
CREAT_HOOK(creat64)

#define MKSTEMP_HOOK(symbol, parameters, arguments, flags)                                         \
  TAILRACE_HOOK int symbol parameters {                                                            \
    Call call;                                                                                     \
    int fd = REAL(symbol) arguments;                                                               \
    record_open(call, Fn::f_##symbol, fd, AT_FDCWD, pattern, O_CREAT | O_EXCL | O_RDWR | (flags)); \
    return fd;                                                                                     \
  }
MKSTEMP_HOOK(mkstemp, (char *pattern), (pattern), 0)
MKSTEMP_HOOK(mkstemp64, (char *pattern), (pattern), 0)
MKSTEMP_HOOK(mkostemp, (char *pattern, int extra), (pattern, extra), extra)
MKSTEMP_HOOK(mkostemp64, (char *pattern, int extra), (pattern, extra), extra)
MKSTEMP_HOOK(mkstemps, (char *pattern, int suffix), (pattern, suffix), 0)
MKSTEMP_HOOK(mkstemps64, (char *pattern, int suffix), (pattern, suffix), 0)
MKSTEMP_HOOK(mkostemps, (char *pattern, int suffix, int extra), (pattern, suffix, extra), extra)
MKSTEMP_HOOK(mkostemps64, (char *pattern, int suffix, int extra), (pattern, suffix, extra), extra)

TAILRACE_HOOK int memfd_create(const char *name, unsigned flags) noexcept {
  Call call;
  int fd = REAL(memfd_create)(name, flags);
  record_open(call, Fn::f_memfd_create, fd, AT_FDCWD, name, O_RDWR);
  return fd;
}

TAILRACE_HOOK int close(int fd) {
  Call call;
  Closing closing(call, fd);
  int ret = REAL(close)(fd);
  if (ret < 0) note_failed_close(fd);
  closing.record(call, Fn::f_close, ret);
  return ret;
}

TAILRACE_HOOK void closefrom(int first) noexcept {
  Call call;
  note_sweep();
  if (call) forget_files(first < 0 ? 0 : static_cast<unsigned>(first), UINT32_MAX);
  REAL(closefrom)(first);
  record_plain(call, Fn::f_closefrom, 0);
}

TAILRACE_HOOK int close_range(unsigned first, unsigned last, int flags) noexcept {
  Call call;
  constexpr int kCloexec = 1 << 2;  // CLOSE_RANGE_CLOEXEC (linux/close_range.h): closes nothing now
  if (first < last) note_sweep();
  if (call && !(flags & kCloexec)) forget_files(first, last);
  int ret = REAL(close_range)(first, last, flags);
  record_plain(call, Fn::f_close_range, ret);
  return ret;
}

TAILRACE_HOOK int dup(int fd) noexcept {
  Call call;
  int ret = REAL(dup)(fd);
  record_dup(call, Fn::f_dup, fd, ret);
  return ret;
}

TAILRACE_HOOK int dup2(int from, int to) noexcept {
  Call call;
  if (call && from != to) forget_file(to);
  int ret = REAL(dup2)(from, to);
  record_dup(call, Fn::f_dup2, from, ret);
  return ret;
}

TAILRACE_HOOK int dup3(int from, int to, int flags) noexcept {
  Call call;
  if (call && from != to) forget_file(to);
  int ret = REAL(dup3)(from, to, flags);
  record_dup(call, Fn::f_dup3, from, ret);
  return ret;
}

// The third argument is a number or a pointer, depending on the command; it is passed on as a word.
#define FCNTL_HOOK(symbol)                                                             \
  TAILRACE_HOOK int symbol(int fd, int command, ...) {                                 \
    va_list args;                                                                      \
    va_start(args, command);                                                           \
    void *argument = va_arg(args, void *);                                             \
    va_end(args);                                                                      \
    const bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC;          \
    if (is_lock(command)) {                                                            \
      if (command == F_SETLKW || command == F_OFD_SETLKW) pthread_testcancel();        \
      return lock_by_fcntl(Fn::f_##symbol, fd, command, argument, REAL(symbol));       \
    }                                                                                  \
    if (!duplicates && command != F_SETFL) return REAL(symbol)(fd, command, argument); \
    Call call;                                                                         \
    int ret = REAL(symbol)(fd, command, argument);                                     \
    if (duplicates) record_dup(call, Fn::f_##symbol, fd, ret);                         \
    if (call && command == F_SETFL && ret == 0) {                                      \
      set_appending(fd, static_cast<int>(reinterpret_cast<intptr_t>(argument)));       \
    }                                                                                  \
    return ret;                                                                        \
  }
FCNTL_HOOK(fcntl)
FCNTL_HOOK(fcntl64)

TAILRACE_HOOK int pipe(int fds[2]) noexcept {
  Call call;
  int ret = REAL(pipe)(fds);
  record_pair(call, Fn::f_pipe, fds, ret);
  return ret;
}

TAILRACE_HOOK int pipe2(int fds[2], int flags) noexcept {
  Call call;
  int ret = REAL(pipe2)(fds, flags);
  record_pair(call, Fn::f_pipe2, fds, ret);
  return ret;
}

TAILRACE_HOOK int shm_open(const char *name, int flags, mode_t mode) {
  Call call;
  int fd = REAL(shm_open)(name, flags, mode);
  // The name of a shared memory object is no path; its descriptor has one.
  if (fd < 0) {
    record_plain(call, Fn::f_shm_open, fd);
  } else {
    record_open(call, Fn::f_shm_open, fd, AT_FDCWD, nullptr, flags);
  }
  return fd;
}

// Descriptors without a file: the table forgets the previous file of their number.
#define MAKER_HOOK(symbol, parameters, arguments) \
  TAILRACE_HOOK int symbol parameters {           \
    Call call;                                    \
    int fd = REAL(symbol) arguments;              \
    record_made(call, Fn::f_##symbol, fd);        \
    return fd;                                    \
  }
MAKER_HOOK(eventfd, (unsigned count, int flags) noexcept, (count, flags))
MAKER_HOOK(epoll_create, (int size) noexcept, (size))
MAKER_HOOK(epoll_create1, (int flags) noexcept, (flags))
MAKER_HOOK(timerfd_create, (clockid_t clock, int flags) noexcept, (clock, flags))
MAKER_HOOK(signalfd, (int old, const sigset_t *mask, int flags) noexcept, (old, mask, flags))
MAKER_HOOK(inotify_init, () noexcept, ())
MAKER_HOOK(inotify_init1, (int flags) noexcept, (flags))
MAKER_HOOK(fanotify_init, (unsigned flags, unsigned event_flags) noexcept, (flags, event_flags))
MAKER_HOOK(pidfd_open, (pid_t pid, unsigned flags) noexcept, (pid, flags))
MAKER_HOOK(pidfd_getfd, (int pidfd, int theirs, unsigned flags) noexcept, (pidfd, theirs, flags))
MAKER_HOOK(posix_openpt, (int flags), (flags))
MAKER_HOOK(getpt, (), ())
MAKER_HOOK(__mq_open_2, (const char *name, int flags), (name, flags))

TAILRACE_HOOK int open_by_handle_at(int mount, struct file_handle *handle, int flags) {
  Call call;
  int fd = REAL(open_by_handle_at)(mount, handle, flags);
  if (fd < 0) {
    record_plain(call, Fn::f_open_by_handle_at, fd);
  } else {
    record_open(call, Fn::f_open_by_handle_at, fd, AT_FDCWD, nullptr, flags);
  }
  return fd;
}

TAILRACE_HOOK mqd_t mq_open(const char *name, int flags, ...) noexcept {
  mode_t mode = 0;
  struct mq_attr *attributes = nullptr;
  if (flags & O_CREAT) {
    va_list args;
    va_start(args, flags);
    mode = va_arg(args, mode_t);
    attributes = va_arg(args, struct mq_attr *);
    va_end(args);
  }
  Call call;
  mqd_t fd = REAL(mq_open)(name, flags, mode, attributes);
  record_made(call, Fn::f_mq_open, fd);
  return fd;
}

TAILRACE_HOOK int mq_close(mqd_t fd) noexcept {
  Call call;
  Closing closing(call, fd);
  int ret = REAL(mq_close)(fd);
  closing.record(call, Fn::f_mq_close, ret);
  return ret;
}

TAILRACE_HOOK int openpty(int *controller, int *terminal, char *name, const struct termios *modes,
                          const struct winsize *size) noexcept {
  Call call;
  int ret = REAL(openpty)(controller, terminal, name, modes, size);
  const int fds[2] = {ret == 0 ? *controller : -1, ret == 0 ? *terminal : -1};
  record_pair(call, Fn::f_openpty, fds, ret);
  return ret;
}

// The terminal becomes descriptors 0, 1 and 2, and its own number is closed.
TAILRACE_HOOK int login_tty(int fd) noexcept {
  Call call;
  if (call) {
    forget_files(0, 2);
    forget_file(fd);
  }
  int ret = REAL(login_tty)(fd);
  if (call) record_fd(call, Fn::f_login_tty, ret == 0 ? 0 : fd, ret);
  return ret;
}

// libc forks inside, and in the child puts the terminal on 0, 1 and 2.
TAILRACE_HOOK int forkpty(int *controller, char *name, const struct termios *modes,
                          const struct winsize *size) noexcept {
  Call call;
  if (call) g_fork_generation.fetch_add(1, std::memory_order_relaxed);
  int pid = REAL(forkpty)(controller, name, modes, size);
  if (pid == 0 && enter()) forget_files(0, 2);
  if (pid > 0 && call && enter()) forget_file(*controller);
  if (pid > 0) record_fd(call, Fn::f_forkpty, *controller, pid);
  if (pid < 0) record_plain(call, Fn::f_forkpty, pid);
  return pid;
}
