// Hooks: the attributes of files (mode, owner, times, extended attributes), and files without data.
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/reserve.h"

using namespace tailrace;

extern "C" {
int __xmknod(int, const char *, mode_t, dev_t *) noexcept;
int __xmknodat(int, int, const char *, mode_t, dev_t *) noexcept;
}

// On a path; `lookup` tells whether links are followed.
#define PATH_HOOK(type, symbol, parameters, arguments, dirfd, lookup) \
  TAILRACE_HOOK type symbol parameters noexcept {                     \
    Call call;                                                        \
    type ret = REAL(symbol) arguments;                                \
    record_named(call, Fn::f_##symbol, dirfd, path, ret, lookup);     \
    return ret;                                                       \
  }
// On a descriptor.
#define FD_HOOK(type, symbol, parameters, arguments) \
  TAILRACE_HOOK type symbol parameters noexcept {    \
    Call call;                                       \
    type ret = REAL(symbol) arguments;               \
    record_fd(call, Fn::f_##symbol, fd, ret);        \
    return ret;                                      \
  }
#define LOOKUP(flags) ((flags)&AT_SYMLINK_NOFOLLOW ? Lookup::kNoFollow : Lookup::kFollow)

PATH_HOOK(int, chmod, (const char *path, mode_t mode), (path, mode), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, lchmod, (const char *path, mode_t mode), (path, mode), AT_FDCWD, Lookup::kNoFollow)
PATH_HOOK(int, fchmodat, (int dir, const char *path, mode_t mode, int flags), (dir, path, mode, flags), dir,
          LOOKUP(flags))
FD_HOOK(int, fchmod, (int fd, mode_t mode), (fd, mode))

PATH_HOOK(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, lchown, (const char *path, uid_t user, gid_t group), (path, user, group), AT_FDCWD, Lookup::kNoFollow)
FD_HOOK(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))

// An empty path (AT_EMPTY_PATH) or none is the descriptor's own file.
#define AT_HOOK(symbol, parameters, arguments, flags)                    \
  TAILRACE_HOOK int symbol parameters noexcept {                         \
    Call call;                                                           \
    int ret = REAL(symbol) arguments;                                    \
    if (!path || ((flags)&AT_EMPTY_PATH && ret == 0 && !*path)) {        \
      record_fd(call, Fn::f_##symbol, dir, ret);                         \
    } else {                                                             \
      record_named(call, Fn::f_##symbol, dir, path, ret, LOOKUP(flags)); \
    }                                                                    \
    return ret;                                                          \
  }
AT_HOOK(fchownat, (int dir, const char *path, uid_t user, gid_t group, int flags), (dir, path, user, group, flags),
        flags)
AT_HOOK(utimensat, (int dir, const char *path, const struct timespec times[2], int flags), (dir, path, times, flags),
        flags)
AT_HOOK(futimesat, (int dir, const char *path, const struct timeval times[2]), (dir, path, times), 0)

PATH_HOOK(int, utime, (const char *path, const struct utimbuf *times), (path, times), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, utimes, (const char *path, const struct timeval times[2]), (path, times), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, lutimes, (const char *path, const struct timeval times[2]), (path, times), AT_FDCWD, Lookup::kNoFollow)
FD_HOOK(int, futimes, (int fd, const struct timeval times[2]), (fd, times))
FD_HOOK(int, futimens, (int fd, const struct timespec times[2]), (fd, times))

PATH_HOOK(int, setxattr, (const char *path, const char *name, const void *value, size_t n, int flags),
          (path, name, value, n, flags), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, lsetxattr, (const char *path, const char *name, const void *value, size_t n, int flags),
          (path, name, value, n, flags), AT_FDCWD, Lookup::kNoFollow)
FD_HOOK(int, fsetxattr, (int fd, const char *name, const void *value, size_t n, int flags), (fd, name, value, n, flags))
PATH_HOOK(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t n), (path, name, value, n),
          AT_FDCWD, Lookup::kFollow)
PATH_HOOK(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t n), (path, name, value, n),
          AT_FDCWD, Lookup::kNoFollow)
FD_HOOK(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t n), (fd, name, value, n))
PATH_HOOK(ssize_t, listxattr, (const char *path, char *names, size_t n), (path, names, n), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(ssize_t, llistxattr, (const char *path, char *names, size_t n), (path, names, n), AT_FDCWD, Lookup::kNoFollow)
FD_HOOK(ssize_t, flistxattr, (int fd, char *names, size_t n), (fd, names, n))
PATH_HOOK(int, removexattr, (const char *path, const char *name), (path, name), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, lremovexattr, (const char *path, const char *name), (path, name), AT_FDCWD, Lookup::kNoFollow)
FD_HOOK(int, fremovexattr, (int fd, const char *name), (fd, name))

PATH_HOOK(int, mknod, (const char *path, mode_t mode, dev_t dev), (path, mode, dev), AT_FDCWD, Lookup::kNoFollow)
PATH_HOOK(int, mknodat, (int dir, const char *path, mode_t mode, dev_t dev), (dir, path, mode, dev), dir,
          Lookup::kNoFollow)
PATH_HOOK(int, __xmknod, (int version, const char *path, mode_t mode, dev_t *dev), (version, path, mode, dev), AT_FDCWD,
          Lookup::kNoFollow)
PATH_HOOK(int, __xmknodat, (int version, int dir, const char *path, mode_t mode, dev_t *dev),
          (version, dir, path, mode, dev), dir, Lookup::kNoFollow)
PATH_HOOK(int, mkfifo, (const char *path, mode_t mode), (path, mode), AT_FDCWD, Lookup::kNoFollow)
PATH_HOOK(int, mkfifoat, (int dir, const char *path, mode_t mode), (dir, path, mode), dir, Lookup::kNoFollow)
PATH_HOOK(int, eaccess, (const char *path, int mode), (path, mode), AT_FDCWD, Lookup::kFollow)
PATH_HOOK(int, euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD, Lookup::kFollow)

TAILRACE_HOOK char *mkdtemp(char *pattern) noexcept {
  Call call;
  char *ret = REAL(mkdtemp)(pattern);
  record_named(call, Fn::f_mkdtemp, AT_FDCWD, pattern, ret ? 1 : -1, Lookup::kNoFollow);
  return ret;
}

// Named within the old root: the new one has no name for itself.
TAILRACE_HOOK int chroot(const char *path) noexcept {
  make_reserve();
  Call call;
  bool readable = call && reads_as_string(path);
  NamedFile file;
  if (readable) name_file(AT_FDCWD, path, Lookup::kFollow, file);
  int ret = REAL(chroot)(path);
  Event e;
  e.fn = Fn::f_chroot;
  e.ret = result_of(ret);
  if (readable) record_path(call, e, &file);
  return ret;
}
