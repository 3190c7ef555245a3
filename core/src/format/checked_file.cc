// See format/checked_file.h.
#include "format/checked_file.h"

#include <errno.h>

namespace tailrace {

int open_regular(const char *path, int flags, int directory) {
  auto fd = static_cast<int>(
      sys::call(SYS_openat, directory, sys::pointer(path), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (fd < 0) return fd;
  struct statx s;
  if (sys::statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &s) == 0 && S_ISREG(s.stx_mode)) return fd;
  sys::close(fd);
  return -EINVAL;
}

int open_directory(int parent, const char *name) {
  return static_cast<int>(
      sys::call(SYS_openat, parent, sys::pointer(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0));
}

bool is_owned_by(int fd, unsigned uid) {
  struct statx s;
  return sys::statx(fd, "", AT_EMPTY_PATH, STATX_UID, &s) == 0 && s.stx_uid == uid;
}

bool is_unlinked(int fd) {
  struct statx s;
  return sys::statx(fd, "", AT_EMPTY_PATH, STATX_NLINK, &s) < 0 || s.stx_nlink == 0;
}

bool ends_within_a_line(int fd) {
  char last;
  int64_t bytes = sys::lseek(fd, 0, SEEK_END);
  return bytes > 0 && sys::pread(fd, &last, 1, bytes - 1) == 1 && last != '\n';
}

bool lock_within_a_second(int fd) {
  constexpr int kAttempts = 100;
  constexpr timespec kPause{0, 10'000'000};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    int status = sys::flock(fd, LOCK_EX | LOCK_NB);
    if (status == 0 || (status != -EWOULDBLOCK && status != -EINTR)) return status == 0;
    sys::call(SYS_nanosleep, sys::pointer(&kPause), 0);
  }
  return false;
}

int high_descriptor(int fd) {
  constexpr int kHigh = 256;
  return static_cast<int>(sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kHigh));
}

}  // namespace tailrace
