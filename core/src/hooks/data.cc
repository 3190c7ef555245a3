// Hooks: calls that move bytes through descriptors, and calls that move their positions.
#include <mqueue.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/write_place.h"

using namespace tailrace;

extern "C" {
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
int __dprintf_chk(int, int, const char *, ...);
int __vdprintf_chk(int, int, const char *, va_list);
}

TAILRACE_HOOK ssize_t read(int fd, void *buf, size_t n) {
  Call call;
  LongCall running(call, Fn::f_read, n);
  ssize_t ret = REAL(read)(fd, buf, n);
  record_transfer(call, Fn::f_read, fd, kHere, n, ret);
  return ret;
}

TAILRACE_HOOK ssize_t __read_chk(int fd, void *buf, size_t n, size_t room) {
  Call call;
  LongCall running(call, Fn::f___read_chk, n);
  ssize_t ret = REAL(__read_chk)(fd, buf, n, room);
  record_transfer(call, Fn::f___read_chk, fd, kHere, n, ret);
  return ret;
}

TAILRACE_HOOK ssize_t write(int fd, const void *buf, size_t n) {
  Call call;
  WritePlace place(call, fd);
  LongCall running(call, Fn::f_write, n);
  ssize_t ret = REAL(write)(fd, buf, n);
  record_written(call, Fn::f_write, fd, place, n, ret);
  return ret;
}

// A negative offset is an error here, and never the descriptor's position.
static int64_t given(int64_t at) { return at < 0 ? kNowhere : at; }

#define PREAD_HOOK(symbol, offset_type)                                       \
  TAILRACE_HOOK ssize_t symbol(int fd, void *buf, size_t n, offset_type at) { \
    Call call;                                                                \
    LongCall running(call, Fn::f_##symbol, n);                                \
    ssize_t ret = REAL(symbol)(fd, buf, n, at);                               \
    record_transfer(call, Fn::f_##symbol, fd, given(at), n, ret);             \
    return ret;                                                               \
  }
PREAD_HOOK(pread, off_t)
PREAD_HOOK(pread64, off64_t)

#define PWRITE_HOOK(symbol, offset_type)                                            \
  TAILRACE_HOOK ssize_t symbol(int fd, const void *buf, size_t n, offset_type at) { \
    Call call;                                                                      \
    WritePlace place(call, fd, given(at));                                          \
    LongCall running(call, Fn::f_##symbol, n);                                      \
    ssize_t ret = REAL(symbol)(fd, buf, n, at);                                     \
    record_written(call, Fn::f_##symbol, fd, place, n, ret);                        \
    return ret;                                                                     \
  }
PWRITE_HOOK(pwrite, off_t)
PWRITE_HOOK(pwrite64, off64_t)

#define PREAD_CHK_HOOK(symbol, offset_type)                                                \
  TAILRACE_HOOK ssize_t symbol(int fd, void *buf, size_t n, offset_type at, size_t room) { \
    Call call;                                                                             \
    LongCall running(call, Fn::f_##symbol, n);                                             \
    ssize_t ret = REAL(symbol)(fd, buf, n, at, room);                                      \
    record_transfer(call, Fn::f_##symbol, fd, given(at), n, ret);                          \
    return ret;                                                                            \
  }
PREAD_CHK_HOOK(__pread_chk, off_t)
PREAD_CHK_HOOK(__pread64_chk, off64_t)

// What a call with parts asked for.
#define VECTOR_BYTES bytes_of(parts, static_cast<uint64_t>(count), ret)

TAILRACE_HOOK ssize_t readv(int fd, const struct iovec *parts, int count) {
  Call call;
  LongCall running(call, Fn::f_readv, kNoCount);
  ssize_t ret = REAL(readv)(fd, parts, count);
  if (is_recorded(call)) record_transfer(call, Fn::f_readv, fd, kHere, VECTOR_BYTES, ret);
  return ret;
}

TAILRACE_HOOK ssize_t writev(int fd, const struct iovec *parts, int count) {
  Call call;
  WritePlace place(call, fd);
  LongCall running(call, Fn::f_writev, kNoCount);
  ssize_t ret = REAL(writev)(fd, parts, count);
  if (is_recorded(call)) record_written(call, Fn::f_writev, fd, place, VECTOR_BYTES, ret);
  return ret;
}

#define PREADV_HOOK(symbol, offset_type)                                                            \
  TAILRACE_HOOK ssize_t symbol(int fd, const struct iovec *parts, int count, offset_type at) {      \
    Call call;                                                                                      \
    LongCall running(call, Fn::f_##symbol, kNoCount);                                               \
    ssize_t ret = REAL(symbol)(fd, parts, count, at);                                               \
    if (is_recorded(call)) record_transfer(call, Fn::f_##symbol, fd, given(at), VECTOR_BYTES, ret); \
    return ret;                                                                                     \
  }
PREADV_HOOK(preadv, off_t)
PREADV_HOOK(preadv64, off64_t)

#define PWRITEV_HOOK(symbol, offset_type)                                                      \
  TAILRACE_HOOK ssize_t symbol(int fd, const struct iovec *parts, int count, offset_type at) { \
    Call call;                                                                                 \
    WritePlace place(call, fd, given(at));                                                     \
    LongCall running(call, Fn::f_##symbol, kNoCount);                                          \
    ssize_t ret = REAL(symbol)(fd, parts, count, at);                                          \
    if (is_recorded(call)) record_written(call, Fn::f_##symbol, fd, place, VECTOR_BYTES, ret); \
    return ret;                                                                                \
  }
PWRITEV_HOOK(pwritev, off_t)
PWRITEV_HOOK(pwritev64, off64_t)

// An offset of -1 is the descriptor's position (preadv2(2)), and so is kHere.
#define PREADV_2_HOOK(symbol, offset_type)                                                                \
  TAILRACE_HOOK ssize_t symbol(int fd, const struct iovec *parts, int count, offset_type at, int flags) { \
    Call call;                                                                                            \
    LongCall running(call, Fn::f_##symbol, kNoCount);                                                     \
    ssize_t ret = REAL(symbol)(fd, parts, count, at, flags);                                              \
    if (is_recorded(call)) record_transfer(call, Fn::f_##symbol, fd, at, VECTOR_BYTES, ret);              \
    return ret;                                                                                           \
  }
PREADV_2_HOOK(preadv2, off_t)
PREADV_2_HOOK(preadv64v2, off64_t)

#define PWRITEV_2_HOOK(symbol, offset_type)                                                               \
  TAILRACE_HOOK ssize_t symbol(int fd, const struct iovec *parts, int count, offset_type at, int flags) { \
    Call call;                                                                                            \
    WritePlace place(call, fd, at, flags);                                                                \
    LongCall running(call, Fn::f_##symbol, kNoCount);                                                     \
    ssize_t ret = REAL(symbol)(fd, parts, count, at, flags);                                              \
    if (is_recorded(call)) record_written(call, Fn::f_##symbol, fd, place, VECTOR_BYTES, ret);            \
    return ret;                                                                                           \
  }
PWRITEV_2_HOOK(pwritev2, off_t)
PWRITEV_2_HOOK(pwritev64v2, off64_t)

#define VDPRINTF_HOOK(symbol, parameters, ...)                                                      \
  TAILRACE_HOOK int symbol parameters {                                                             \
    Call call;                                                                                      \
    WritePlace place(call, fd);                                                                     \
    int ret = REAL(symbol)(__VA_ARGS__);                                                            \
    record_written(call, Fn::f_##symbol, fd, place, static_cast<uint64_t>(ret < 0 ? 0 : ret), ret); \
    return ret;                                                                                     \
  }
VDPRINTF_HOOK(vdprintf, (int fd, const char *format, va_list args), fd, format, args)
VDPRINTF_HOOK(__vdprintf_chk, (int fd, int flag, const char *format, va_list args), fd, flag, format, args)

TAILRACE_HOOK int dprintf(int fd, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int ret = vdprintf(fd, format, args);
  va_end(args);
  return ret;
}

TAILRACE_HOOK int __dprintf_chk(int fd, int flag, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int ret = __vdprintf_chk(fd, flag, format, args);
  va_end(args);
  return ret;
}

// Counters and message queues: descriptors whose bytes have no offsets. `moved`: the bytes of a successful call.
#define MESSAGE_HOOK(type, symbol, parameters, arguments, count, moved)                                     \
  TAILRACE_HOOK type symbol parameters {                                                                    \
    Call call;                                                                                              \
    type ret = REAL(symbol) arguments;                                                                      \
    record_transfer(call, Fn::f_##symbol, fd, kNowhere, count, ret < 0 ? -1 : static_cast<int64_t>(moved)); \
    return ret;                                                                                             \
  }
MESSAGE_HOOK(int, eventfd_read, (int fd, eventfd_t *value), (fd, value), sizeof(eventfd_t), sizeof(eventfd_t))
MESSAGE_HOOK(int, eventfd_write, (int fd, eventfd_t value), (fd, value), sizeof value, sizeof value)
MESSAGE_HOOK(ssize_t, mq_receive, (mqd_t fd, char *buf, size_t n, unsigned *priority), (fd, buf, n, priority), n, ret)
MESSAGE_HOOK(ssize_t, mq_timedreceive,
             (mqd_t fd, char *buf, size_t n, unsigned *priority, const struct timespec *until),
             (fd, buf, n, priority, until), n, ret)
MESSAGE_HOOK(int, mq_send, (mqd_t fd, const char *buf, size_t n, unsigned priority), (fd, buf, n, priority), n, n)
MESSAGE_HOOK(int, mq_timedsend, (mqd_t fd, const char *buf, size_t n, unsigned priority, const struct timespec *until),
             (fd, buf, n, priority, until), n, n)

#define LSEEK_HOOK(symbol, offset_type)                                                       \
  TAILRACE_HOOK offset_type symbol(int fd, offset_type offset, int whence) noexcept {         \
    Call call;                                                                                \
    offset_type ret = REAL(symbol)(fd, offset, whence);                                       \
    if (OpenFile *f = call && ret >= 0 ? known_file_of(fd) : nullptr) f->position.store(ret); \
    record_fd(call, Fn::f_##symbol, fd, ret, 0, ret);                                         \
    return ret;                                                                               \
  }
LSEEK_HOOK(lseek, off_t)
LSEEK_HOOK(lseek64, off64_t)
