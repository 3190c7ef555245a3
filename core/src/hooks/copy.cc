// Hooks: copies between descriptors, or between memory and a pipe, whose bytes do not pass through the program.
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sys.h"
#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/write_place.h"

using namespace tailrace;

#define SENDFILE_HOOK(symbol, offset_type)                                                           \
  TAILRACE_HOOK ssize_t symbol(int to, int from, offset_type *at, size_t n) noexcept {               \
    Call call;                                                                                       \
    LongCall running(call, Fn::f_##symbol, n);                                                       \
    WritePlace place(call, to);                                                                      \
    ssize_t ret = REAL(symbol)(to, from, at, n);                                                     \
    if (is_recorded(call) && (ret >= 0 || errno != EFAULT)) {                                        \
      record_copy(call, Fn::f_##symbol, {from, given_offset(at, ret)}, {to, kHere, &place}, n, ret); \
    }                                                                                                \
    return ret;                                                                                      \
  }
SENDFILE_HOOK(sendfile, off_t)
SENDFILE_HOOK(sendfile64, off64_t)

#define COPY_HOOK(symbol)                                                                                      \
  TAILRACE_HOOK ssize_t symbol(int from, off64_t *from_at, int to, off64_t *to_at, size_t n, unsigned flags) { \
    Call call;                                                                                                 \
    LongCall running(call, Fn::f_##symbol, n);                                                                 \
    WritePlace place(call, to, to_at ? kNowhere : kHere);                                                      \
    ssize_t ret = REAL(symbol)(from, from_at, to, to_at, n, flags);                                            \
    if (is_recorded(call) && (ret >= 0 || errno != EFAULT)) {                                                  \
      CopyEnd target{to, given_offset(to_at, ret), to_at ? nullptr : &place};                                  \
      record_copy(call, Fn::f_##symbol, {from, given_offset(from_at, ret)}, target, n, ret);                   \
    }                                                                                                          \
    return ret;                                                                                                \
  }
COPY_HOOK(copy_file_range)
COPY_HOOK(splice)

// tee copies a pipe's bytes into another pipe; they can still be read from the first.
TAILRACE_HOOK ssize_t tee(int from, int to, size_t n, unsigned flags) {
  Call call;
  ssize_t ret = REAL(tee)(from, to, n, flags);
  record_copy(call, Fn::f_tee, {from, kNowhere}, {to, kNowhere}, n, ret);
  return ret;
}

// The pipe's end gives the direction: from memory into a write end, out of a read end into memory.
TAILRACE_HOOK ssize_t vmsplice(int fd, const struct iovec *parts, size_t n, unsigned flags) {
  Call call;
  ssize_t ret = REAL(vmsplice)(fd, parts, n, flags);
  if (!is_recorded(call)) return ret;
  long mode = sys::call(SYS_fcntl, fd, F_GETFL);
  bool reads = mode >= 0 && (mode & O_ACCMODE) == O_RDONLY;
  record_transfer(call, reads ? Fn::kVmspliceRead : Fn::f_vmsplice, fd, kNowhere, bytes_of(parts, n, ret), ret);
  return ret;
}

namespace {

// A clone shares the blocks: the kernel accounts no bytes, but the data of the one file is now the other's.
void record_clone(const Call &call, const CopyEnd &from, const CopyEnd &to, int64_t bytes, int ret) {
  int saved = errno;
  if (ret == 0 && bytes == 0) {
    struct statx s;
    bool known = sys::statx(from.fd, "", AT_EMPTY_PATH, STATX_SIZE, &s) == 0;
    bytes = known ? static_cast<int64_t>(s.stx_size) - from.at : 0;
  }
  record_copy(call, Fn::kClone, from, to, static_cast<uint64_t>(bytes), ret < 0 ? -1 : bytes);
  errno = saved;
}

}  // namespace

// The third argument is a number or a pointer, depending on the command; it is passed on as a word.
TAILRACE_HOOK int ioctl(int fd, unsigned long command, ...) noexcept {
  va_list args;
  va_start(args, command);
  void *argument = va_arg(args, void *);
  va_end(args);
  if (command != FICLONE && command != FICLONERANGE) return REAL(ioctl)(fd, command, argument);
  Call call;
  int ret = REAL(ioctl)(fd, command, argument);
  if (!call) return ret;
  if (command == FICLONE) {
    record_clone(call, {static_cast<int>(reinterpret_cast<intptr_t>(argument)), 0}, {fd, 0}, 0, ret);
  } else if (ret == 0) {
    auto *range = static_cast<const struct file_clone_range *>(argument);
    record_clone(call, {static_cast<int>(range->src_fd), static_cast<int64_t>(range->src_offset)},
                 {fd, static_cast<int64_t>(range->dest_offset)}, static_cast<int64_t>(range->src_length), ret);
  }
  return ret;
}
