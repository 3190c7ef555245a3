// Hooks: locks of files. They move no bytes; a range, counted from the file's begin, is in `offset` and `count`, and
// the kind is that of flock(2), whatever call takes the lock (format/lock_kind.h). How long a call waited is its
// duration.
//
// Who held a range when the wait for it began is asked for: fcntl and lockf first try without waiting. If the range is
// free, that was all, and costs what the program's call would. Else F_GETLK tells the holder, and the program's own
// call follows, with all that only it does: it finds deadlocks, is interrupted, is ordered among those that wait.
// Between the two the lock may become free or another one's. What waits is a cancellation point also where the lock is
// free; the first attempt is none, so a pending request is looked for before (not by syscall(2), which is none).
//
// Not so flock: no call tells who holds such a lock, and to try first would give up a lock of the other kind that the
// descriptor has, as its conversion does. The calls of its holders are in the trace.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "format/lock_kind.h"
#include "hooks/hook_records.h"
#include "linker/real.h"

using namespace tailrace;

namespace {

// Where a range begins that is told from the file's begin, position or end; below 0: not known.
int64_t lock_start(int fd, int whence, int64_t start) {
  if (whence == SEEK_SET) return start;
  struct statx file;
  int64_t from = -1;
  if (whence == SEEK_CUR) {
    from = sys::lseek(fd, 0, SEEK_CUR);
  } else if (sys::statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &file) == 0) {
    from = static_cast<int64_t>(file.stx_size);
  }
  return from < 0 ? -1 : from + start;
}

struct LockRange {
  int64_t start;  // below 0: not known
  int64_t bytes;  // below 0: those before `start`; 0: to the end, wherever that is
};

void record_range_lock(const Call &call, Fn fn, int fd, LockRange range, uint64_t word, int64_t ret) {
  if (range.start >= 0 && range.bytes < 0) {
    range.start += range.bytes;
    range.bytes = -range.bytes;
  }
  record_fd(call, fn, fd, ret, static_cast<uint64_t>(range.bytes), range.start, word);
}

// The process that keeps the lock from being taken; 0: none, or it is another host's or of an open file description.
uint32_t holder_of(int fd, struct flock wanted, int command) {
  wanted.l_pid = 0;
  const bool is_told = sys::call(SYS_fcntl, fd, command, sys::pointer(&wanted)) >= 0 && wanted.l_type != F_UNLCK;
  return is_told && wanted.l_pid > 0 ? static_cast<uint32_t>(wanted.l_pid) : 0;
}

bool is_held_by_other(int error) { return error == EAGAIN || error == EACCES; }

// The result of `attempt`, which does not wait; where another has the lock `ask` tells who.
template <class Attempt, class Ask>
int try_first(Attempt attempt, Ask ask, uint32_t &holder) {
  const int saved = errno;
  const int ret = attempt();
  if (ret < 0) {
    if (is_held_by_other(errno)) holder = ask();
    errno = saved;
  }
  return ret;
}

int lockf_kind(int command) {
  switch (command) {
    case F_ULOCK: return LOCK_UN;
    case F_LOCK: return LOCK_EX;
    case F_TLOCK: return LOCK_EX | LOCK_NB;
    default: return 0;
  }
}

// lockf's range begins at the descriptor's position.
template <class Real>
int lock_from_here(Fn fn, int fd, int command, int64_t bytes, Real real) {
  if (command == F_LOCK) pthread_testcancel();
  Call call;
  uint32_t holder = 0;
  int ret = -1;
  if (call && command == F_LOCK) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_CUR;
    lock.l_len = bytes;
    ret = try_first([&] { return real(F_TLOCK); }, [&] { return holder_of(fd, lock, F_GETLK); }, holder);
  }
  if (ret < 0) ret = real(command);
  if (!call) return ret;
  const uint64_t word = lock_word(lockf_kind(command), holder);
  record_range_lock(call, fn, fd, {lock_start(fd, SEEK_CUR, 0), bytes}, word, ret);
  return ret;
}

}  // namespace

int tailrace::lock_by_fcntl(Fn fn, int fd, int command, void *argument, FcntlFunction *real) {
  Call call;
  const auto *lock = static_cast<const struct flock *>(argument);
  const bool is_files = command == F_OFD_SETLKW;
  uint32_t holder = 0;
  int ret = -1;
  if (call && (command == F_SETLKW || is_files)) {
    ret = try_first([&] { return real(fd, is_files ? F_OFD_SETLK : F_SETLK, argument); },
                    [&] { return holder_of(fd, *lock, is_files ? F_OFD_GETLK : F_GETLK); }, holder);
  }
  if (ret < 0) ret = real(fd, command, argument);
  if (!call) return ret;
  // A call that failed may have got a bad pointer.
  if (ret < 0) {
    record_range_lock(call, fn, fd, {-1, 0}, 0, ret);
    return ret;
  }
  const LockRange range{lock_start(fd, lock->l_whence, lock->l_start), lock->l_len};
  record_range_lock(call, fn, fd, range, lock_word(lock_kind(command, lock->l_type), holder), ret);
  return ret;
}

#define LOCKF_HOOK(symbol, offset)                                                                            \
  TAILRACE_HOOK int symbol(int fd, int command, offset n) {                                                   \
    return lock_from_here(Fn::f_##symbol, fd, command, n, [=](int how) { return REAL(symbol)(fd, how, n); }); \
  }
LOCKF_HOOK(lockf, off_t)
LOCKF_HOOK(lockf64, off64_t)

TAILRACE_HOOK int flock(int fd, int operation) noexcept {
  Call call;
  const int ret = REAL(flock)(fd, operation);
  record_flock(call, fd, operation, ret);
  return ret;
}

void tailrace::record_flock(const Call &call, int fd, int operation, int64_t ret) {
  record_range_lock(call, Fn::f_flock, fd, {0, 0}, lock_word(operation, 0), ret);
}
