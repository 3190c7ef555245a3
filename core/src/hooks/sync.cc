// Hooks: calls about the blocks of a file (allocate, cut off, write back, read ahead). They move no bytes; the range,
// if there is one, is in `offset` and `count`.
#include <fcntl.h>
#include <unistd.h>

#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/ledger.h"

using namespace tailrace;

namespace {

// The posix_ functions return the error and do not set errno.
void record_status(const Call &call, Fn fn, int fd, int status, int64_t at, int64_t n) {
  int saved = errno;
  errno = status;
  record_fd(call, fn, fd, status ? -1 : 0, static_cast<uint64_t>(n), at);
  errno = saved;
}

}  // namespace

#define FD_HOOK(symbol, parameters, arguments) \
  TAILRACE_HOOK int symbol parameters {        \
    Call call;                                 \
    int ret = REAL(symbol) arguments;          \
    record_fd(call, Fn::f_##symbol, fd, ret);  \
    return ret;                                \
  }
FD_HOOK(fsync, (int fd), (fd))
FD_HOOK(fdatasync, (int fd), (fd))
FD_HOOK(syncfs, (int fd) noexcept, (fd))

#define FTRUNCATE_HOOK(symbol, offset_type)                                     \
  TAILRACE_HOOK int symbol(int fd, offset_type size) noexcept {                 \
    Call call;                                                                  \
    const int64_t before = call ? size_of_file(fd) : 0;                         \
    int ret = REAL(symbol)(fd, size);                                           \
    record_fd(call, Fn::f_##symbol, fd, ret, cut_off(before, size, ret), size); \
    return ret;                                                                 \
  }
FTRUNCATE_HOOK(ftruncate, off_t)
FTRUNCATE_HOOK(ftruncate64, off64_t)

TAILRACE_HOOK void sync() noexcept {
  Call call;
  REAL(sync)();
  record_plain(call, Fn::f_sync, 0);
}

#define RANGE_HOOK(type, symbol, parameters, arguments)                     \
  TAILRACE_HOOK type symbol parameters {                                    \
    Call call;                                                              \
    type ret = REAL(symbol) arguments;                                      \
    record_fd(call, Fn::f_##symbol, fd, ret, static_cast<uint64_t>(n), at); \
    return ret;                                                             \
  }

#define FALLOCATE_HOOK(symbol, offset)                                                                   \
  TAILRACE_HOOK int symbol(int fd, int mode, offset at, offset n) {                                      \
    Call call;                                                                                           \
    int ret = REAL(symbol)(fd, mode, at, n);                                                             \
    record_fd(call, Fn::f_##symbol, fd, ret, static_cast<uint64_t>(n), at, static_cast<uint64_t>(mode)); \
    return ret;                                                                                          \
  }
FALLOCATE_HOOK(fallocate, off_t)
FALLOCATE_HOOK(fallocate64, off64_t)
RANGE_HOOK(int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags))
RANGE_HOOK(ssize_t, readahead, (int fd, off64_t at, size_t n) noexcept, (fd, at, n))

#define STATUS_HOOK(symbol, parameters, arguments)          \
  TAILRACE_HOOK int symbol parameters {                     \
    Call call;                                              \
    int status = REAL(symbol) arguments;                    \
    record_status(call, Fn::f_##symbol, fd, status, at, n); \
    return status;                                          \
  }

// On file systems without the call libc reads the existing blocks and writes a byte to each of the others.
#define ALLOCATE_HOOK(symbol, offset)                                                               \
  TAILRACE_HOOK int symbol(int fd, offset at, offset n) {                                           \
    Call call;                                                                                      \
    Thread *t = call.thread();                                                                      \
    if (!t) return REAL(symbol)(fd, at, n);                                                         \
    LibcCall account(t);                                                                            \
    int status = REAL(symbol)(fd, at, n);                                                           \
    int64_t bytes[2];                                                                               \
    bool known = account.finish(bytes);                                                             \
    record_status(call, Fn::f_##symbol, fd, status, at, n);                                         \
    for (Fn way : {Fn::kBlocksRead, Fn::kBlocksWritten}) {                                          \
      int64_t moved = known ? bytes[way == Fn::kBlocksRead ? kRead : kWritten] : 0;                 \
      if (moved > 0) record_transfer(call, way, fd, kNowhere, static_cast<uint64_t>(moved), moved); \
    }                                                                                               \
    return status;                                                                                  \
  }
ALLOCATE_HOOK(posix_fallocate, off_t)
ALLOCATE_HOOK(posix_fallocate64, off64_t)
STATUS_HOOK(posix_fadvise, (int fd, off_t at, off_t n, int advice) noexcept, (fd, at, n, advice))
STATUS_HOOK(posix_fadvise64, (int fd, off64_t at, off64_t n, int advice) noexcept, (fd, at, n, advice))
