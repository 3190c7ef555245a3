// See format/journal_use.h.
#include "format/journal_use.h"

#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/sys.h"

namespace tailrace {
namespace {

constexpr int kSetSignal = 10, kSetLease = 1024;  // of fcntl(2)

// When the process began, in realtime ns, from /proc/PID/stat; 0 when it is gone or only a zombie is left.
// Its resolution is the kernel's tick, 10 ms.
uint64_t process_start_ns(int pid) {
  char path[64], stat[1024];
  Writer w(path, sizeof path);
  w << "/proc/";
  w.number(pid) << "/stat";
  int fd = sys::open(w.c_str(), O_RDONLY);
  if (fd < 0) return 0;
  long n = sys::read(fd, stat, sizeof stat);
  sys::close(fd);
  if (n <= 0) return 0;
  string_view text(stat, static_cast<size_t>(n));
  // The name in parentheses may contain any character, blanks and parentheses too.
  size_t at = text.rfind(')');
  if (at == string_view::npos || at + 2 >= text.size()) return 0;
  char state = text[at + 2];
  if (state == 'X') return 0;
  // Fields by the numbers of proc(5): 9 flags, 20 num_threads, 22 starttime.
  uint64_t flags = 0, threads = 0, ticks = 0;
  int field = 2;
  for (; at < text.size() && field < 22; ++at) {
    if (text[at] != ' ') continue;
    ++field;
    string_view rest = slice(text, at + 1, text.size() - at - 1);
    uint64_t *wanted = field == 9 ? &flags : field == 20 ? &threads : field == 22 ? &ticks : nullptr;
    if (wanted && !take_decimal(rest, *wanted)) return 0;
  }
  // With more threads, only the first has exited: by itself, or for an execve of another one, which then takes its
  // place.
  constexpr uint64_t kExiting = 4;
  if ((state == 'Z' || (flags & kExiting)) && threads <= 1) return 0;
  return clock_ahead_ns(CLOCK_REALTIME, CLOCK_BOOTTIME) + ticks * 10000000ULL;
}

// Fills in which file it is; false where it can't be told.
bool identify(int fd, FirstLook &look) {
  struct statx s;
  if (sys::statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &s) < 0) return false;
  FileIdentity identity = identity_of(s);
  look.dev = identity.dev;
  look.ino = identity.ino;
  look.btime_ns = identity.btime_ns;
  return true;
}

bool is_same_file(const FirstLook &a, const FirstLook &b) {
  return a.dev == b.dev && a.ino == b.ino && a.btime_ns == b.btime_ns;
}

Use use_by_leases(int read_only_fd, FirstLook &first) {
  FirstLook now;
  uint64_t began_ns = monotonic_ns();
  if (is_mapped(read_only_fd) || !identify(read_only_fd, now)) return Use::kInUse;
  if (first.at_ns && is_same_file(first, now))
    return began_ns - first.at_ns >= kBetweenLooksNs ? Use::kNone : Use::kUnmapped;
  now.at_ns = monotonic_ns();
  first = now;
  return Use::kUnmapped;
}

}  // namespace

ReadLease::ReadLease(int read_only_fd) : fd_(read_only_fd) {
  struct statfs fs;
  if (sys::call(SYS_fstatfs, fd_, sys::pointer(&fs)) < 0) return;
  // Other file systems are layered over the inode (overlayfs), or ask a server.
  bool known = fs.f_type == TMPFS_MAGIC || fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
               fs.f_type == BTRFS_SUPER_MAGIC;
  // The signal by which a writer's open(2) asks for the lease, SIGIO, would end us.
  is_granted_ =
      known && sys::call(SYS_fcntl, fd_, kSetSignal, SIGURG) >= 0 && sys::call(SYS_fcntl, fd_, kSetLease, F_RDLCK) >= 0;
}

ReadLease::~ReadLease() {
  if (is_granted_) sys::call(SYS_fcntl, fd_, kSetLease, F_UNLCK);
}

bool is_mapped(int read_only_fd) { return !ReadLease(read_only_fd).is_granted(); }

Use use_of(const SegmentHeader &segment, int read_only_fd, FirstLook &first) {
  constexpr uint64_t kSlackNs = 1'000'000'000;  // clock steps between then and now
  if (segment.holding.load() == kReserve) return use_by_leases(read_only_fd, first);
  if (segment.pid_namespace == 0 || segment.pid_namespace != pid_namespace()) return use_by_leases(read_only_fd, first);
  first = {};
  // The pid exists, and is no later process of the same number.
  uint64_t began = process_start_ns(segment.pid);
  if (began != 0 && began <= segment.start_realtime_ns + kSlackNs) return Use::kInUse;
  // Its children count their losses in it.
  return segment.homeless.load() && is_mapped(read_only_fd) ? Use::kInUse : Use::kNone;
}

bool was_looked_at(const FirstLook &look, int fd) {
  FirstLook now;
  return identify(fd, now) && is_same_file(look, now);
}

void wait_between_looks(uint64_t first_look_ns) {
  uint64_t until_ns = first_look_ns + kBetweenLooksNs;
  // A signal ends a pause.
  for (uint64_t now = monotonic_ns(); now < until_ns; now = monotonic_ns()) {
    timespec pause{0, static_cast<long>(until_ns - now)};
    sys::call(SYS_nanosleep, sys::pointer(&pause), 0);
  }
}

}  // namespace tailrace
