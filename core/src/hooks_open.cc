// Hooks: what makes, copies and closes descriptors. Every path by which a descriptor can close passes here, else the
// number, when it is used again, would credit its bytes to the old file.
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "real.h"
#include "record.h"

using namespace tailrace;

// Names that glibc exports but its headers don't declare here.
extern "C" {
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
}

namespace {

void record_open(const Call &call, Fn fn, int fd, int dirfd, const char *path, int flags) {
  if (!call || !enter()) return;
  int saved = errno;
  NamedFile file;
  Event e;
  e.fn = fn;
  e.count = static_cast<uint64_t>(static_cast<unsigned>(flags));
  if (fd >= 0) {
    e.ret = fd;
    record_path(call, e, file_opened(fd, flags, path, file) ? &file : nullptr);
  } else if (reads_as_string_after(path, saved)) {
    name_file(dirfd, path, Look::kNot, file);
    e.ret = -saved;
    record_path(call, e, &file);
  }
  errno = saved;
}

bool takes_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

// A call that returns a new descriptor for what an old one stands for.
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

// Two new descriptors whose other ends are each other.
void record_pair(const Call &call, Fn fn, const int fds[2], int ret) {
  if (!call || !enter()) return;
  int saved = errno;
  Event e;
  e.fn = fn;
  e.ret = ret < 0 ? -saved : 0;
  NamedFile a, b;
  bool named_a = ret == 0 && file_opened(fds[0], 0, nullptr, a);
  bool named_b = ret == 0 && file_opened(fds[1], 0, nullptr, b);
  // Both ends of a pipe are one file.
  record_path(call, e, named_a ? &a : nullptr, named_b && b.hash != a.hash ? &b : nullptr);
  errno = saved;
}

}  // namespace

#define OPEN_HOOK(symbol)                                         \
  TAILRACE_HOOK int symbol(const char *path, int flags, ...) {    \
    mode_t mode = 0;                                              \
    if (takes_mode(flags)) {                                      \
      va_list args;                                               \
      va_start(args, flags);                                      \
      mode = va_arg(args, mode_t);                                \
      va_end(args);                                               \
    }                                                             \
    Call call;                                                    \
    int fd = REAL(symbol)(path, flags, mode);                     \
    record_open(call, Fn::f_##symbol, fd, AT_FDCWD, path, flags); \
    return fd;                                                    \
  }
OPEN_HOOK(open)
OPEN_HOOK(open64)

#define OPENAT_HOOK(symbol)                                               \
  TAILRACE_HOOK int symbol(int dirfd, const char *path, int flags, ...) { \
    mode_t mode = 0;                                                      \
    if (takes_mode(flags)) {                                              \
      va_list args;                                                       \
      va_start(args, flags);                                              \
      mode = va_arg(args, mode_t);                                        \
      va_end(args);                                                       \
    }                                                                     \
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
  closing.record(call, Fn::f_close, ret);
  return ret;
}

TAILRACE_HOOK void closefrom(int first) noexcept {
  Call call;
  if (call) forget_files(first < 0 ? 0 : static_cast<unsigned>(first), UINT32_MAX);
  REAL(closefrom)(first);
  record_plain(call, Fn::f_closefrom, 0);
}

TAILRACE_HOOK int close_range(unsigned first, unsigned last, int flags) noexcept {
  Call call;
  constexpr int kCloexec = 1 << 2;  // CLOSE_RANGE_CLOEXEC (linux/close_range.h): closes nothing now
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

// The third argument is a number or a pointer, whatever the command wants; it is handed on as a word.
#define FCNTL_HOOK(symbol)                                              \
  TAILRACE_HOOK int symbol(int fd, int command, ...) {                  \
    va_list args;                                                       \
    va_start(args, command);                                            \
    void *argument = va_arg(args, void *);                              \
    va_end(args);                                                       \
    bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC; \
    if (!duplicates) return REAL(symbol)(fd, command, argument);        \
    Call call;                                                          \
    int ret = REAL(symbol)(fd, command, argument);                      \
    record_dup(call, Fn::f_##symbol, fd, ret);                          \
    return ret;                                                         \
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

TAILRACE_HOOK int socketpair(int domain, int type, int protocol, int fds[2]) noexcept {
  Call call;
  int ret = REAL(socketpair)(domain, type, protocol, fds);
  record_pair(call, Fn::f_socketpair, fds, ret);
  return ret;
}

TAILRACE_HOOK DIR *opendir(const char *path) {
  Call call;
  DIR *dir = REAL(opendir)(path);
  record_open(call, Fn::f_opendir, dir ? dirfd(dir) : -1, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  return dir;
}

TAILRACE_HOOK DIR *fdopendir(int fd) {
  Call call;
  DIR *dir = REAL(fdopendir)(fd);
  record_fd(call, Fn::f_fdopendir, fd, dir ? 1 : -1);
  return dir;
}

TAILRACE_HOOK int closedir(DIR *dir) {
  Call call;
  Closing closing(call, call && dir ? dirfd(dir) : -1);
  int ret = REAL(closedir)(dir);
  closing.record(call, Fn::f_closedir, ret);
  return ret;
}
