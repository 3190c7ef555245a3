// Hooks: directories. Each call is one event; the calls that scandir, ftw and glob make within libc are none.
#include <dirent.h>
#include <ftw.h>
#include <glob.h>

#include "hooks/hook_records.h"
#include "linker/real.h"

using namespace tailrace;

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

#define READDIR_HOOK(symbol, entry)                                            \
  TAILRACE_HOOK struct entry *symbol(DIR *dir) {                               \
    Call call;                                                                 \
    struct entry *ret = REAL(symbol)(dir);                                     \
    if (call && dir) record_fd(call, Fn::f_##symbol, dirfd(dir), ret ? 1 : 0); \
    return ret;                                                                \
  }
READDIR_HOOK(readdir, dirent)
READDIR_HOOK(readdir64, dirent64)

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define READDIR_R_HOOK(symbol, entry)                                             \
  TAILRACE_HOOK int symbol(DIR *dir, struct entry *room, struct entry **result) { \
    Call call;                                                                    \
    int ret = REAL(symbol)(dir, room, result);                                    \
    if (call && dir) record_fd(call, Fn::f_##symbol, dirfd(dir), ret ? 0 : 1);    \
    return ret;                                                                   \
  }
READDIR_R_HOOK(readdir_r, dirent)
READDIR_R_HOOK(readdir64_r, dirent64)

TAILRACE_HOOK ssize_t getdents64(int fd, void *buf, size_t n) noexcept {
  Call call;
  ssize_t ret = REAL(getdents64)(fd, buf, n);
  record_fd(call, Fn::f_getdents64, fd, ret);
  return ret;
}

#define GETDIRENTRIES_HOOK(symbol, offset_type)                                           \
  TAILRACE_HOOK ssize_t symbol(int fd, char *buf, size_t n, offset_type *base) noexcept { \
    Call call;                                                                            \
    ssize_t ret = REAL(symbol)(fd, buf, n, base);                                         \
    record_fd(call, Fn::f_##symbol, fd, ret);                                             \
    return ret;                                                                           \
  }
GETDIRENTRIES_HOOK(getdirentries, off_t)
GETDIRENTRIES_HOOK(getdirentries64, off64_t)

// A whole walk of a tree.
#define WALK_HOOK(symbol, parameters, arguments, dir)                    \
  TAILRACE_HOOK int symbol parameters {                                  \
    Call call;                                                           \
    int ret = REAL(symbol) arguments;                                    \
    record_named(call, Fn::f_##symbol, dir, path, ret, Lookup::kFollow); \
    return ret;                                                          \
  }
#define SCANDIR_PARAMETERS(entry) \
  struct entry ***found, int (*wanted)(const struct entry *), int (*order)(const struct entry **, const struct entry **)
WALK_HOOK(scandir, (const char *path, SCANDIR_PARAMETERS(dirent)), (path, found, wanted, order), AT_FDCWD)
WALK_HOOK(scandir64, (const char *path, SCANDIR_PARAMETERS(dirent64)), (path, found, wanted, order), AT_FDCWD)
WALK_HOOK(scandirat, (int dir, const char *path, SCANDIR_PARAMETERS(dirent)), (dir, path, found, wanted, order), dir)
WALK_HOOK(scandirat64, (int dir, const char *path, SCANDIR_PARAMETERS(dirent64)), (dir, path, found, wanted, order),
          dir)
WALK_HOOK(ftw, (const char *path, __ftw_func_t visit, int depth), (path, visit, depth), AT_FDCWD)
WALK_HOOK(ftw64, (const char *path, __ftw64_func_t visit, int depth), (path, visit, depth), AT_FDCWD)
WALK_HOOK(nftw, (const char *path, __nftw_func_t visit, int depth, int flags), (path, visit, depth, flags), AT_FDCWD)
WALK_HOOK(nftw64, (const char *path, __nftw64_func_t visit, int depth, int flags), (path, visit, depth, flags),
          AT_FDCWD)

// A pattern is no file name.
#define GLOB_HOOK(symbol, result)                                                                                    \
  TAILRACE_HOOK int symbol(const char *pattern, int flags, int (*failed)(const char *, int), result *out) noexcept { \
    Call call;                                                                                                       \
    int ret = REAL(symbol)(pattern, flags, failed, out);                                                             \
    record_plain(call, Fn::f_##symbol, ret);                                                                         \
    return ret;                                                                                                      \
  }
GLOB_HOOK(glob, glob_t)
GLOB_HOOK(glob64, glob64_t)
