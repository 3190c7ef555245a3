// Raw system calls. The core makes its own calls this way only: they meet no hook (of the core or of another tool),
// don't touch errno, are no cancellation points, and are safe in a vfork child and in a signal handler. Every function
// returns the kernel's value: negative is -errno.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

namespace tailrace::sys {

#if defined(__x86_64__)
inline long call(long n, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long ret;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(ret)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return ret;
}
#elif defined(__aarch64__)
inline long call(long n, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#error "tailrace's core knows x86_64 and aarch64; add the system call sequence of this machine here"
#endif

inline long pointer(const volatile void *p) { return reinterpret_cast<long>(const_cast<const void *>(p)); }

inline int open_within_limit(const char *path, int flags, int mode) {
  return static_cast<int>(call(SYS_openat, AT_FDCWD, pointer(path), flags | O_CLOEXEC, mode));
}
// A program that has used up its descriptors leaves none for the core. Then its soft limit is raised during this
// call, as far as the hard limit allows, and the new descriptor is above the program's range.
inline int open(const char *path, int flags, int mode = 0) {
  constexpr int kEmfile = 24, kNofile = 7;
  int fd = open_within_limit(path, flags, mode);
  if (fd != -kEmfile) return fd;
  uint64_t limit[2];
  if (call(SYS_prlimit64, 0, kNofile, 0, pointer(limit)) < 0 || limit[0] >= limit[1]) return fd;
  uint64_t raised[2] = {limit[1] - limit[0] > 16 ? limit[0] + 16 : limit[1], limit[1]};
  if (call(SYS_prlimit64, 0, kNofile, pointer(raised), 0) < 0) return fd;
  fd = open_within_limit(path, flags, mode);
  call(SYS_prlimit64, 0, kNofile, pointer(limit), 0);
  return fd;
}
inline int close(int fd) { return static_cast<int>(call(SYS_close, fd)); }
inline long read(int fd, void *buf, size_t n) { return call(SYS_read, fd, pointer(buf), static_cast<long>(n)); }
inline long write(int fd, const void *buf, size_t n) { return call(SYS_write, fd, pointer(buf), static_cast<long>(n)); }
inline long pread(int fd, void *buf, size_t n, int64_t at) {
  return call(SYS_pread64, fd, pointer(buf), static_cast<long>(n), at);
}
inline int64_t lseek(int fd, int64_t offset, int whence) { return call(SYS_lseek, fd, offset, whence); }
inline int ftruncate(int fd, int64_t size) { return static_cast<int>(call(SYS_ftruncate, fd, size)); }
inline int fallocate(int fd, int64_t offset, int64_t size) {
  return static_cast<int>(call(SYS_fallocate, fd, 0, offset, size));
}
// The caller's RLIMIT_FSIZE: a write past it raises SIGXFSZ, which the core would cause.
inline uint64_t file_size_limit() {
  uint64_t limit[2] = {~0ULL, ~0ULL};
  constexpr long kFsize = 1;
  call(SYS_prlimit64, 0, kFsize, 0, pointer(limit));
  return limit[0];
}
inline int unlink(const char *path) { return static_cast<int>(call(SYS_unlinkat, AT_FDCWD, pointer(path), 0)); }
inline int rmdir(const char *path) {
  return static_cast<int>(call(SYS_unlinkat, AT_FDCWD, pointer(path), AT_REMOVEDIR));
}
inline int mkdir(const char *path, int mode) {
  return static_cast<int>(call(SYS_mkdirat, AT_FDCWD, pointer(path), mode));
}
inline long readlink(const char *path, char *buf, size_t n) {
  return call(SYS_readlinkat, AT_FDCWD, pointer(path), pointer(buf), static_cast<long>(n));
}
// The count includes the terminating zero, as the kernel's does.
inline long getcwd(char *buf, size_t n) { return call(SYS_getcwd, pointer(buf), static_cast<long>(n)); }
inline int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *out) {
  return static_cast<int>(call(SYS_statx, dirfd, pointer(path), flags, mask, pointer(out)));
}
inline int getpid() { return static_cast<int>(call(SYS_getpid)); }
inline int getppid() { return static_cast<int>(call(SYS_getppid)); }
inline int gettid() { return static_cast<int>(call(SYS_gettid)); }
inline unsigned geteuid() { return static_cast<unsigned>(call(SYS_geteuid)); }
inline unsigned getuid() { return static_cast<unsigned>(call(SYS_getuid)); }
inline int kill(int pid, int sig) { return static_cast<int>(call(SYS_kill, pid, sig)); }
inline int flock(int fd, int op) { return static_cast<int>(call(SYS_flock, fd, op)); }
inline int madvise(void *p, size_t n, int advice) {
  return static_cast<int>(call(SYS_madvise, pointer(p), static_cast<long>(n), advice));
}
inline long futex(volatile void *word, int op, int value) { return call(SYS_futex, pointer(word), op, value, 0); }

// All signals blocked for a scope, so that no handler runs while the core holds a lock or rearranges a buffer.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    uint64_t all = ~0ULL;
    call(SYS_rt_sigprocmask, SIG_SETMASK, pointer(&all), pointer(&saved_), sizeof saved_);
  }
  ~SignalsBlocked() { call(SYS_rt_sigprocmask, SIG_SETMASK, pointer(&saved_), 0, sizeof saved_); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  uint64_t saved_ = 0;
};

}  // namespace tailrace::sys
