// Hooks: syscall(2), libc's way to call the kernel by number. Calls that move bytes, and all that open, copy or close a
// descriptor, lock or wait, are recorded like the function of that name. All other numbers jump to the real function,
// with untouched arguments, stack and return address (clone, vfork).
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#ifdef SYS_openat2
#include <linux/openat2.h>
#endif

#include "format/lock_kind.h"
#include "hooks/hook_records.h"
#include "hooks/programs_memory.h"
#include "hooks/seccomp.h"
#include "linker/real.h"
#include "session/reserve.h"
#include "session/waits.h"
#include "session/write_place.h"

using namespace tailrace;

// glibc has it since 2.34.
extern "C" int execveat(int, const char *, char *const[], char *const[], int) noexcept;

namespace {

#define ARGUMENTS                                                                                     \
  [[maybe_unused]] long n, [[maybe_unused]] long a, [[maybe_unused]] long b, [[maybe_unused]] long c, \
      [[maybe_unused]] long d, [[maybe_unused]] long e, [[maybe_unused]] long f
#define REAL_CALL REAL(syscall)(n, a, b, c, d, e, f)

const char *path_in(long word) { return reinterpret_cast<const char *>(word); }
int fd_in(long word) { return static_cast<int>(word); }

#define OPEN_CALL(name, fn, dirfd, path, flags)                         \
  long on_##name(ARGUMENTS) {                                           \
    Call call;                                                          \
    long ret = REAL_CALL;                                               \
    record_open(call, Fn::fn, fd_in(ret), dirfd, path_in(path), flags); \
    return ret;                                                         \
  }
#ifdef SYS_open
OPEN_CALL(open, f_open, AT_FDCWD, a, fd_in(b))
OPEN_CALL(creat, f_creat, AT_FDCWD, a, O_CREAT | O_WRONLY | O_TRUNC)
#endif
OPEN_CALL(openat, f_openat, fd_in(a), b, fd_in(c))
#ifdef SYS_openat2
long on_openat2(ARGUMENTS) {
  Call call;
  long ret = REAL_CALL;
  // The kernel has read it when the call succeeds.
  open_how how{};
  if (ret >= 0) how = *reinterpret_cast<const open_how *>(c);
  // Below a root of the call's own the path means something else.
  const char *path = how.resolve & RESOLVE_IN_ROOT ? nullptr : path_in(b);
  record_open(call, Fn::f_openat, fd_in(ret), fd_in(a), path, static_cast<int>(how.flags));
  return ret;
}
#endif
OPEN_CALL(memfd_create, f_memfd_create, AT_FDCWD, a, O_RDWR)

long on_prctl(ARGUMENTS) {
  auto confinement = Confinement::of_prctl(a, b, path_in(c));
  long ret = REAL_CALL;
  confinement.take_effect(ret == 0);
  return ret;
}

long on_seccomp(ARGUMENTS) {
  auto confinement = Confinement::of_seccomp(a, path_in(c));
  long ret = REAL_CALL;
  confinement.take_effect(ret == 0);
  return ret;
}

// As in hooks/rights.cc; the position of the user among the arguments depends on the call.
#define RIGHTS_CALL(name, uid)                \
  long on_##name(ARGUMENTS) {                 \
    make_reserve(static_cast<unsigned>(uid)); \
    return REAL_CALL;                         \
  }
RIGHTS_CALL(setuid, a)
RIGHTS_CALL(setreuid, b)
RIGHTS_CALL(setresuid, b)
RIGHTS_CALL(setfsuid, a)
RIGHTS_CALL(chroot, kSameUser)
RIGHTS_CALL(pivot_root, kSameUser)

long on_close(ARGUMENTS) {
  Call call;
  Closing closing(call, fd_in(a));
  long ret = REAL_CALL;
  if (ret < 0) note_failed_close(fd_in(a));
  closing.record(call, Fn::f_close, ret);
  return ret;
}

#ifdef SYS_close_range
long on_close_range(ARGUMENTS) {
  Call call;
  constexpr long kCloexec = 1 << 2;  // CLOSE_RANGE_CLOEXEC (linux/close_range.h): closes nothing now
  if (a < b) note_sweep();
  if (call && !(c & kCloexec)) forget_files(static_cast<unsigned>(a), static_cast<unsigned>(b));
  long ret = REAL_CALL;
  record_plain(call, Fn::f_close_range, ret);
  return ret;
}
#endif

#define DUP_CALL(name)                                                      \
  long on_##name(ARGUMENTS) {                                               \
    Call call;                                                              \
    if (call && Fn::f_##name != Fn::f_dup && a != b) forget_file(fd_in(b)); \
    long ret = REAL_CALL;                                                   \
    record_dup(call, Fn::f_##name, fd_in(a), fd_in(ret));                   \
    return ret;                                                             \
  }
DUP_CALL(dup)
#ifdef SYS_dup2
DUP_CALL(dup2)
#endif
DUP_CALL(dup3)

// As fcntl() with these arguments.
int fcntl_by_number(int fd, int command, ...) {
  va_list args;
  va_start(args, command);
  void *argument = va_arg(args, void *);
  va_end(args);
  return static_cast<int>(REAL(syscall)(SYS_fcntl, fd, command, argument));
}

long on_fcntl(ARGUMENTS) {
  if (is_lock(fd_in(b))) {
    return lock_by_fcntl(Fn::f_fcntl, fd_in(a), fd_in(b), reinterpret_cast<void *>(c), fcntl_by_number);
  }
  Call call;
  long ret = REAL_CALL;
  if (b == F_DUPFD || b == F_DUPFD_CLOEXEC) record_dup(call, Fn::f_fcntl, fd_in(a), fd_in(ret));
  if (call && b == F_SETFL && ret == 0) set_appending(fd_in(a), fd_in(c));
  return ret;
}

long on_flock(ARGUMENTS) {
  Call call;
  const long ret = REAL_CALL;
  record_flock(call, fd_in(a), fd_in(b), ret);
  return ret;
}

#define READ_CALL(name, fn, at, count)                                                                     \
  long on_##name(ARGUMENTS) {                                                                              \
    Call call;                                                                                             \
    LongCall running(call, Fn::fn, static_cast<uint64_t>(c));                                              \
    long ret = REAL_CALL;                                                                                  \
    if (is_recorded(call)) record_transfer(call, Fn::fn, fd_in(a), at, static_cast<uint64_t>(count), ret); \
    return ret;                                                                                            \
  }
#define WRITE_CALL(name, fn, at, count, flags)                                                               \
  long on_##name(ARGUMENTS) {                                                                                \
    Call call;                                                                                               \
    WritePlace place(call, fd_in(a), at, static_cast<int>(flags));                                           \
    LongCall running(call, Fn::fn, static_cast<uint64_t>(c));                                                \
    long ret = REAL_CALL;                                                                                    \
    if (is_recorded(call)) record_written(call, Fn::fn, fd_in(a), place, static_cast<uint64_t>(count), ret); \
    return ret;                                                                                              \
  }
#define PARTS bytes_of(reinterpret_cast<const struct iovec *>(b), static_cast<uint64_t>(c), ret)
// A negative offset is an error but for those of version 2.
#define GIVEN_AT (d < 0 ? kNowhere : d)
READ_CALL(read, f_read, kHere, c)
WRITE_CALL(write, f_write, kHere, c, 0)
READ_CALL(pread64, f_pread64, GIVEN_AT, c)
WRITE_CALL(pwrite64, f_pwrite64, GIVEN_AT, c, 0)
READ_CALL(readv, f_readv, kHere, PARTS)
WRITE_CALL(writev, f_writev, kHere, PARTS, 0)
// The kernel takes an offset in two words, and on 64-bit machines needs only the first.
READ_CALL(preadv, f_preadv, GIVEN_AT, PARTS)
WRITE_CALL(pwritev, f_pwritev, GIVEN_AT, PARTS, 0)
READ_CALL(preadv2, f_preadv2, d, PARTS)
WRITE_CALL(pwritev2, f_pwritev2, d, PARTS, f)

const off64_t *offset_in(long word) { return reinterpret_cast<const off64_t *>(word); }

// `to_at`: the word of the pointer to the target's offset, 0 where it has none.
#define COPY_CALL(name, fn, from, from_at, to, to_at, count)                        \
  long on_##name(ARGUMENTS) {                                                       \
    Call call;                                                                      \
    WritePlace place(call, fd_in(to), (to_at) ? kNowhere : kHere);                  \
    long ret = REAL_CALL;                                                           \
    if (is_recorded(call) && (ret >= 0 || errno != EFAULT)) {                       \
      CopyEnd target{fd_in(to), GIVEN(to_at), (to_at) ? nullptr : &place};          \
      CopyEnd source{fd_in(from), GIVEN(from_at)};                                  \
      record_copy(call, Fn::fn, source, target, static_cast<uint64_t>(count), ret); \
    }                                                                               \
    return ret;                                                                     \
  }
#define GIVEN(word) given_offset(offset_in(word), ret)
COPY_CALL(copy_file_range, f_copy_file_range, a, b, c, d, e)
COPY_CALL(splice, f_splice, a, b, c, d, e)
COPY_CALL(sendfile, f_sendfile, b, c, a, 0L, d)

long on_io_submit(ARGUMENTS) {
  Call call;
  if (call) expect_requests(call, b, reinterpret_cast<struct iocb **>(c));
  long ret = REAL_CALL;
  record_submit(call, result_of(ret));
  return ret;
}

#define RESULTS_CALL(name)                                                   \
  long on_##name(ARGUMENTS) {                                                \
    Call call;                                                               \
    long ret = REAL_CALL;                                                    \
    record_results(call, reinterpret_cast<const struct io_event *>(d), ret); \
    return ret;                                                              \
  }
RESULTS_CALL(io_getevents)
RESULTS_CALL(io_pgetevents)

#ifdef SYS_io_uring_setup
long on_io_uring_setup(ARGUMENTS) {
  Call call;
  long ret = REAL_CALL;
  record_ring_setup(call, ret);
  return ret;
}
#endif

// What libstdc++, Rust, TBB and others wait by. Locks are among it, which are free as a rule and then no system call.
long on_futex(ARGUMENTS) {
  switch (b & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_WAIT_REQUEUE_PI: break;
    default: return REAL_CALL;
  }
  Waiting waiting;
  const long ret = REAL_CALL;
  record_waited(waiting, Fn::kFutex, ret, [] { return WaitedFor{}; });
  return ret;
}

#define WAIT_CALL(name, fn, timeout, fd)                                       \
  long on_##name(ARGUMENTS) {                                                  \
    Waiting waiting;                                                           \
    const long ret = REAL_CALL;                                                \
    record_waited(waiting, Fn::fn, ret, [&] {                                  \
      return WaitedFor{ret < 0 && errno == EFAULT ? kNoTimeout : timeout, fd}; \
    });                                                                        \
    return ret;                                                                \
  }
#define NS(word) (word ? ns_of(*reinterpret_cast<const struct timespec *>(word)) : kNoTimeout)
#define MS(word) (fd_in(word) < 0 ? kNoTimeout : static_cast<uint64_t>(fd_in(word)) * 1'000'000)
#ifdef SYS_poll
WAIT_CALL(poll, f_poll, MS(c), -1)
WAIT_CALL(epoll_wait, f_epoll_wait, MS(d), fd_in(a))
WAIT_CALL(pause, f_pause, kNoTimeout, -1)
#endif
WAIT_CALL(ppoll, f_ppoll, NS(c), -1)
WAIT_CALL(pselect6, f_pselect, NS(e), -1)
WAIT_CALL(epoll_pwait, f_epoll_pwait, MS(d), fd_in(a))
WAIT_CALL(nanosleep, f_nanosleep, NS(a), -1)
WAIT_CALL(clock_nanosleep, f_clock_nanosleep, (b & TIMER_ABSTIME ? kNoTimeout : NS(c)), -1)
WAIT_CALL(rt_sigtimedwait, f_sigtimedwait, NS(c), -1)

long on_execve(ARGUMENTS) {
  return execve(path_in(a), reinterpret_cast<char *const *>(b), reinterpret_cast<char *const *>(c));
}

long on_execveat(ARGUMENTS) {
  return execveat(fd_in(a), path_in(b), reinterpret_cast<char *const *>(c), reinterpret_cast<char *const *>(d),
                  fd_in(e));
}

// Calls on memory give way, and look around the core's (hooks/programs_memory.h). They are not passed to the hooks of
// their names: an allocator's own mmap, which such a hook calls, may be who is calling here.
#define AT(word) reinterpret_cast<void *>(word)

long on_mmap(ARGUMENTS) {
  auto real = [&] { return AT(REAL_CALL); };
  return reinterpret_cast<long>(map_for_program(AT(a), static_cast<size_t>(b), fd_in(d), real));
}

long on_mremap(ARGUMENTS) {
  auto real = [&] { return AT(REAL_CALL); };
  const Remapping r{AT(a), static_cast<size_t>(b), static_cast<size_t>(c), fd_in(d), AT(e)};
  return reinterpret_cast<long>(remap_for_program(r, real));
}

long on_shmat(ARGUMENTS) {
  make_way_for_segment(fd_in(a), AT(b));
  return REAL_CALL;
}

#define RANGE_CALL(name, unmapped)                                                         \
  long on_##name(ARGUMENTS) {                                                              \
    auto real = [&](void *begin, size_t bytes) {                                           \
      const long at = reinterpret_cast<long>(begin);                                       \
      return static_cast<int>(REAL(syscall)(n, at, static_cast<long>(bytes), c, d, e, f)); \
    };                                                                                     \
    return for_programs_memory(AT(a), static_cast<size_t>(b), unmapped, real);             \
  }
RANGE_CALL(munmap, Unmapped::kPassed)
RANGE_CALL(mprotect, Unmapped::kEnds)
RANGE_CALL(msync, Unmapped::kFails)
RANGE_CALL(madvise, Unmapped::kFails)
RANGE_CALL(mincore, Unmapped::kEnds)
RANGE_CALL(mlock, Unmapped::kEnds)
RANGE_CALL(munlock, Unmapped::kEnds)
#ifdef SYS_mlock2
RANGE_CALL(mlock2, Unmapped::kEnds)
#endif
#ifdef SYS_pkey_mprotect
RANGE_CALL(pkey_mprotect, Unmapped::kEnds)
#endif

}  // namespace

// Called by the assembly below. Returns the address to jump to.
extern "C" __attribute__((visibility("hidden"), used)) void *tailrace_syscall_target(long number) {
#define ROW(name) \
  case SYS_##name: return reinterpret_cast<void *>(on_##name);
  switch (number) {
    ROW(read)
    ROW(write)
    ROW(pread64)
    ROW(pwrite64)
    ROW(readv)
    ROW(writev)
    ROW(preadv)
    ROW(pwritev)
    ROW(preadv2)
    ROW(pwritev2)
    ROW(openat)
    ROW(close)
    ROW(dup)
    ROW(dup3)
    ROW(fcntl)
    ROW(sendfile)
    ROW(splice)
    ROW(copy_file_range)
    ROW(memfd_create)
    ROW(prctl)
    ROW(seccomp)
    ROW(setuid)
    ROW(setreuid)
    ROW(setresuid)
    ROW(setfsuid)
    ROW(chroot)
    ROW(pivot_root)
    ROW(io_submit)
    ROW(io_getevents)
    ROW(io_pgetevents)
    ROW(flock)
    ROW(futex)
    ROW(ppoll)
    ROW(pselect6)
    ROW(epoll_pwait)
    ROW(nanosleep)
    ROW(clock_nanosleep)
    ROW(rt_sigtimedwait)
    ROW(execve)
    ROW(execveat)
    ROW(mmap)
    ROW(munmap)
    ROW(mremap)
    ROW(mprotect)
    ROW(msync)
    ROW(madvise)
    ROW(mincore)
    ROW(mlock)
    ROW(munlock)
    ROW(shmat)
#ifdef SYS_mlock2
    ROW(mlock2)
#endif
#ifdef SYS_pkey_mprotect
    ROW(pkey_mprotect)
#endif
#ifdef SYS_close_range
    ROW(close_range)
#endif
#ifdef SYS_openat2
    ROW(openat2)
#endif
#ifdef SYS_io_uring_setup
    ROW(io_uring_setup)
#endif
#ifdef SYS_open
    ROW(open)
    ROW(creat)
    ROW(dup2)
#endif
#ifdef SYS_poll
    ROW(poll)
    ROW(epoll_wait)
    ROW(pause)
#endif
    default: return real_address(Fn::f_syscall);
  }
#undef ROW
}

#if defined(__x86_64__)
__asm__(R"(
  .text
  .globl syscall
  .type syscall, @function
syscall:
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  subq $8, %rsp
  call tailrace_syscall_target
  addq $8, %rsp
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  jmp *%rax
  .size syscall, .-syscall
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .globl syscall
  .type syscall, %function
syscall:
  stp x0, x1, [sp, #-80]!
  stp x2, x3, [sp, #16]
  stp x4, x5, [sp, #32]
  stp x6, x7, [sp, #48]
  str x30, [sp, #64]
  bl tailrace_syscall_target
  mov x9, x0
  ldr x30, [sp, #64]
  ldp x6, x7, [sp, #48]
  ldp x4, x5, [sp, #32]
  ldp x2, x3, [sp, #16]
  ldp x0, x1, [sp], #80
  br x9
  .size syscall, .-syscall
)");
#endif
