// Hooks: calls that name files. The name is made absolute. The file is looked up where the call itself does not tell
// its identity, and before the call where the call removes it.
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hooks/hook_records.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
ssize_t __readlink_chk(const char *, char *, size_t, size_t) noexcept;
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t) noexcept;
int __xstat(int, const char *, struct stat *) noexcept;
int __xstat64(int, const char *, struct stat64 *) noexcept;
int __lxstat(int, const char *, struct stat *) noexcept;
int __lxstat64(int, const char *, struct stat64 *) noexcept;
int __fxstat(int, int, struct stat *) noexcept;
int __fxstat64(int, int, struct stat64 *) noexcept;
int __fxstatat(int, int, const char *, struct stat *, int) noexcept;
int __fxstatat64(int, int, const char *, struct stat64 *, int) noexcept;
}

namespace {

bool is_readable(const char *path, int64_t ret) { return reads_as_string_after(path, ret >= 0 ? 0 : errno); }

}  // namespace

namespace tailrace {

void record_named(const Call &call, Fn fn, int dirfd, const char *path, int64_t ret, Lookup lookup) {
  if (!call || !is_readable(path, ret)) return;
  Event e;
  e.fn = fn;
  e.ret = result_of(ret);
  NamedFile file;
  name_file(dirfd, path, ret >= 0 ? lookup : Lookup::kNot, file);
  record_path(call, e, &file);
}

}  // namespace tailrace

namespace {

// Whether libc answers, and with it the kernel: another preloaded library may tell other times (libfaketime), by which
// no file is known again (session/birth_times.h).
bool is_told_by_kernel(Fn fn) {
  static std::atomic<int8_t> known[kFunctionCount];
  std::atomic<int8_t> &is = known[static_cast<size_t>(fn)];
  if (is.load(std::memory_order_relaxed) == 0) is.store(is_not_libcs(fn) ? -1 : 1, std::memory_order_relaxed);
  return is.load(std::memory_order_relaxed) > 0;
}

// What the stat family has told of the file is passed on, or null. With AT_EMPTY_PATH a null path is the same as an
// empty one.
void record_stat(const Call &call, Fn fn, int dirfd, const char *path, int flags, int ret, const struct stat *told) {
  if (!call) return;
  bool readable = path && is_readable(path, ret);
  if (!path || (readable && !*path)) {
    record_fd(call, fn, dirfd, ret);
    return;
  }
  if (!readable) return;
  Event e;
  e.fn = fn;
  e.ret = result_of(ret);
  NamedFile file;
  Lookup lookup = flags & AT_SYMLINK_NOFOLLOW ? Lookup::kNoFollow : Lookup::kFollow;
  if (ret == 0 && told && is_told_by_kernel(fn)) {
    name_found_file(dirfd, path, lookup, *told, file);
  } else {
    name_file(dirfd, path, ret == 0 ? lookup : Lookup::kNot, file);
  }
  record_path(call, e, &file);
}

const struct stat *told_by(const struct stat *buffer) { return buffer; }
const struct stat *told_by(const struct stat64 *buffer) {
  static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout on 64-bit machines");
  return reinterpret_cast<const struct stat *>(buffer);
}

// A call that removes a name: the file must be looked up before.
class Removal {
 public:
  Removal(const Call &call, int dirfd, const char *path) : recorded_(call && path) {
    if (recorded_ && reads_as_string(path)) name_file(dirfd, path, Lookup::kNoFollow, file_);
  }
  void record(const Call &call, Fn fn, int64_t ret) {
    if (!recorded_ || !file_.hash) return;
    Event e;
    e.fn = fn;
    e.ret = result_of(ret);
    record_path(call, e, &file_);
  }

 private:
  bool recorded_;
  NamedFile file_;
};

// The file that a shared memory object is, by shm_open(3): glibc and musl take the name without its leading slashes.
// None for a name that can't be one.
class SharedMemoryPath {
 public:
  explicit SharedMemoryPath(const char *name) {
    if (!name || !reads_as_string(name)) return;
    while (*name == '/') ++name;
    const size_t size = strnlen(name, NAME_MAX + 1);
    if (size == 0 || size > NAME_MAX) return;
    memcpy(text_ + kFolder.size(), name, size + 1);
    memcpy(text_, kFolder.data(), kFolder.size());
  }
  const char *text() const { return *text_ ? text_ : nullptr; }

 private:
  static constexpr string_view kFolder = "/dev/shm/";
  char text_[kFolder.size() + NAME_MAX + 1] = "";
};

void record_two_names(const Call &call, Fn fn, int from_dir, const char *from, int to_dir, const char *to, int ret) {
  if (!call || (ret < 0 && (!reads_as_string(from) || !reads_as_string(to)))) return;
  Event e;
  e.fn = fn;
  e.ret = result_of(ret);
  NamedFile a, b;
  name_file(to_dir, to, ret == 0 ? Lookup::kNoFollow : Lookup::kNot, b);
  bool may_redirect = b.identity.type == FileType::kDirectory || b.identity.type == FileType::kLink;
  if (ret == 0 && may_redirect) forget_names();
  // After the call the file has the new name; the record has the same identity for both.
  name_file_as(from_dir, from, b.identity, a);
  record_path(call, e, &a, &b);
}

}  // namespace

#define STAT_HOOK(symbol, buffer, flags)                                         \
  TAILRACE_HOOK int symbol(const char *path, struct buffer *out) noexcept {      \
    Call call;                                                                   \
    int ret = REAL(symbol)(path, out);                                           \
    record_stat(call, Fn::f_##symbol, AT_FDCWD, path, flags, ret, told_by(out)); \
    return ret;                                                                  \
  }
STAT_HOOK(stat, stat, 0)
STAT_HOOK(stat64, stat64, 0)
STAT_HOOK(lstat, stat, AT_SYMLINK_NOFOLLOW)
STAT_HOOK(lstat64, stat64, AT_SYMLINK_NOFOLLOW)

#define XSTAT_HOOK(symbol, buffer, flags)                                                \
  TAILRACE_HOOK int symbol(int version, const char *path, struct buffer *out) noexcept { \
    Call call;                                                                           \
    int ret = REAL(symbol)(version, path, out);                                          \
    record_stat(call, Fn::f_##symbol, AT_FDCWD, path, flags, ret, told_by(out));         \
    return ret;                                                                          \
  }
XSTAT_HOOK(__xstat, stat, 0)
XSTAT_HOOK(__xstat64, stat64, 0)
XSTAT_HOOK(__lxstat, stat, AT_SYMLINK_NOFOLLOW)
XSTAT_HOOK(__lxstat64, stat64, AT_SYMLINK_NOFOLLOW)

#define FSTAT_HOOK(symbol, buffer)                                \
  TAILRACE_HOOK int symbol(int fd, struct buffer *out) noexcept { \
    Call call;                                                    \
    int ret = REAL(symbol)(fd, out);                              \
    record_fd(call, Fn::f_##symbol, fd, ret);                     \
    return ret;                                                   \
  }
FSTAT_HOOK(fstat, stat)
FSTAT_HOOK(fstat64, stat64)

#define FXSTAT_HOOK(symbol, buffer)                                            \
  TAILRACE_HOOK int symbol(int version, int fd, struct buffer *out) noexcept { \
    Call call;                                                                 \
    int ret = REAL(symbol)(version, fd, out);                                  \
    record_fd(call, Fn::f_##symbol, fd, ret);                                  \
    return ret;                                                                \
  }
FXSTAT_HOOK(__fxstat, stat)
FXSTAT_HOOK(__fxstat64, stat64)

#define FSTATAT_HOOK(symbol, buffer)                                                              \
  TAILRACE_HOOK int symbol(int dirfd, const char *path, struct buffer *out, int flags) noexcept { \
    Call call;                                                                                    \
    int ret = REAL(symbol)(dirfd, path, out, flags);                                              \
    record_stat(call, Fn::f_##symbol, dirfd, path, flags, ret, told_by(out));                     \
    return ret;                                                                                   \
  }
FSTATAT_HOOK(fstatat, stat)
FSTATAT_HOOK(fstatat64, stat64)

#define FXSTATAT_HOOK(symbol, buffer)                                                                          \
  TAILRACE_HOOK int symbol(int version, int dirfd, const char *path, struct buffer *out, int flags) noexcept { \
    Call call;                                                                                                 \
    int ret = REAL(symbol)(version, dirfd, path, out, flags);                                                  \
    record_stat(call, Fn::f_##symbol, dirfd, path, flags, ret, told_by(out));                                  \
    return ret;                                                                                                \
  }
FXSTATAT_HOOK(__fxstatat, stat)
FXSTATAT_HOOK(__fxstatat64, stat64)

TAILRACE_HOOK int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *out) noexcept {
  Call call;
  int ret = REAL(statx)(dirfd, path, flags, mask, out);
  record_stat(call, Fn::f_statx, dirfd, path, flags, ret, nullptr);
  return ret;
}

TAILRACE_HOOK int access(const char *path, int mode) noexcept {
  Call call;
  int ret = REAL(access)(path, mode);
  record_named(call, Fn::f_access, AT_FDCWD, path, ret, Lookup::kFollow);
  return ret;
}

TAILRACE_HOOK int faccessat(int dirfd, const char *path, int mode, int flags) noexcept {
  Call call;
  int ret = REAL(faccessat)(dirfd, path, mode, flags);
  record_named(call, Fn::f_faccessat, dirfd, path, ret, Lookup::kFollow);
  return ret;
}

TAILRACE_HOOK int rename(const char *from, const char *to) noexcept {
  Call call;
  int ret = REAL(rename)(from, to);
  record_two_names(call, Fn::f_rename, AT_FDCWD, from, AT_FDCWD, to, ret);
  return ret;
}

TAILRACE_HOOK int renameat(int from_dir, const char *from, int to_dir, const char *to) noexcept {
  Call call;
  int ret = REAL(renameat)(from_dir, from, to_dir, to);
  record_two_names(call, Fn::f_renameat, from_dir, from, to_dir, to, ret);
  return ret;
}

TAILRACE_HOOK int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) noexcept {
  Call call;
  int ret = REAL(renameat2)(from_dir, from, to_dir, to, flags);
  record_two_names(call, Fn::f_renameat2, from_dir, from, to_dir, to, ret);
  return ret;
}

TAILRACE_HOOK int link(const char *from, const char *to) noexcept {
  Call call;
  int ret = REAL(link)(from, to);
  record_two_names(call, Fn::f_link, AT_FDCWD, from, AT_FDCWD, to, ret);
  return ret;
}

TAILRACE_HOOK int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) noexcept {
  Call call;
  int ret = REAL(linkat)(from_dir, from, to_dir, to, flags);
  record_two_names(call, Fn::f_linkat, from_dir, from, to_dir, to, ret);
  return ret;
}

#define REMOVAL_HOOK(symbol)                            \
  TAILRACE_HOOK int symbol(const char *path) noexcept { \
    Call call;                                          \
    Removal removal(call, AT_FDCWD, path);              \
    int ret = REAL(symbol)(path);                       \
    removal.record(call, Fn::f_##symbol, ret);          \
    return ret;                                         \
  }
REMOVAL_HOOK(unlink)
REMOVAL_HOOK(remove)
REMOVAL_HOOK(rmdir)

TAILRACE_HOOK int unlinkat(int dirfd, const char *path, int flags) noexcept {
  Call call;
  Removal removal(call, dirfd, path);
  int ret = REAL(unlinkat)(dirfd, path, flags);
  removal.record(call, Fn::f_unlinkat, ret);
  return ret;
}

TAILRACE_HOOK int shm_unlink(const char *name) {
  Call call;
  SharedMemoryPath path(call ? name : nullptr);
  Removal removal(call, AT_FDCWD, path.text());
  int ret = REAL(shm_unlink)(name);
  removal.record(call, Fn::f_shm_unlink, ret);
  return ret;
}

#define NAMED_HOOK(symbol, parameters, arguments, dirfd, path, lookup) \
  TAILRACE_HOOK int symbol parameters noexcept {                       \
    Call call;                                                         \
    int ret = REAL(symbol) arguments;                                  \
    record_named(call, Fn::f_##symbol, dirfd, path, ret, lookup);      \
    return ret;                                                        \
  }
NAMED_HOOK(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path, Lookup::kNoFollow)
NAMED_HOOK(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode), dir, path, Lookup::kNoFollow)
#define SYMLINK_HOOK(symbol, parameters, arguments, dirfd)                   \
  TAILRACE_HOOK int symbol parameters noexcept {                             \
    Call call;                                                               \
    int ret = REAL(symbol) arguments;                                        \
    if (call && ret == 0) forget_names();                                    \
    if (!call || (ret < 0 && !reads_as_string(path))) return ret;            \
    record_named(call, Fn::f_##symbol, dirfd, path, ret, Lookup::kNoFollow); \
    return ret;                                                              \
  }
SYMLINK_HOOK(symlink, (const char *target, const char *path), (target, path), AT_FDCWD)
SYMLINK_HOOK(symlinkat, (const char *target, int dir, const char *path), (target, dir, path), dir)

// The file has the name that an open of it gets: the path may be a link, or one of /proc/self/fd.
#define TRUNCATE_HOOK(symbol, offset)                                     \
  TAILRACE_HOOK int symbol(const char *path, offset size) noexcept {      \
    Call call;                                                            \
    const int64_t before = call ? size_of_file(path) : 0;                 \
    int ret = REAL(symbol)(path, size);                                   \
    if (!call || !is_readable(path, ret)) return ret;                     \
    Event e{Fn::f_##symbol, 0, 0, size, cut_off(before, size, ret), ret}; \
    e.ret = result_of(ret);                                               \
    NamedFile file;                                                       \
    if (ret == 0)                                                         \
      name_file_as_opened(path, file);                                    \
    else                                                                  \
      name_file(AT_FDCWD, path, Lookup::kNot, file);                      \
    record_path(call, e, &file);                                          \
    return ret;                                                           \
  }
TRUNCATE_HOOK(truncate, off_t)
TRUNCATE_HOOK(truncate64, off64_t)

#define READLINK_HOOK(symbol, parameters, arguments, dirfd)                  \
  TAILRACE_HOOK ssize_t symbol parameters noexcept {                         \
    Call call;                                                               \
    ssize_t ret = REAL(symbol) arguments;                                    \
    record_named(call, Fn::f_##symbol, dirfd, path, ret, Lookup::kNoFollow); \
    return ret;                                                              \
  }
READLINK_HOOK(readlink, (const char *path, char *out, size_t n), (path, out, n), AT_FDCWD)
READLINK_HOOK(readlinkat, (int dir, const char *path, char *out, size_t n), (dir, path, out, n), dir)
READLINK_HOOK(__readlink_chk, (const char *path, char *out, size_t n, size_t room), (path, out, n, room), AT_FDCWD)
READLINK_HOOK(__readlinkat_chk, (int dir, const char *path, char *out, size_t n, size_t room),
              (dir, path, out, n, room), dir)

// Named before the call: a relative path means something else afterwards.
TAILRACE_HOOK int chdir(const char *path) noexcept {
  Call call;
  Removal target(call, AT_FDCWD, path);
  int ret = REAL(chdir)(path);
  target.record(call, Fn::f_chdir, ret);
  return ret;
}

TAILRACE_HOOK int fchdir(int fd) noexcept {
  Call call;
  int ret = REAL(fchdir)(fd);
  record_fd(call, Fn::f_fchdir, fd, ret);
  return ret;
}
