// Sealing what dead processes left: run by the launcher of a node when its processes have ended, and by `tailrace
// seal`. A journal belongs to whoever holds its lock (flock); a process that lives keeps its own.
#include <dirent.h>
#include <errno.h>
#include <sys/file.h>

#include <new>

#include "seal.h"
#include "sys.h"

namespace tailrace {
namespace {

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
  // The name in parentheses may hold anything, blanks and parentheses too.
  size_t at = text.rfind(')');
  if (at == string_view::npos || at + 2 >= text.size()) return 0;
  char state = text[at + 2];
  if (state == 'Z' || state == 'X') return 0;
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
  // On its way out after a kill; with more threads only the first may have left.
  constexpr uint64_t kExiting = 4;
  if ((flags & kExiting) && threads <= 1) return 0;
  timespec boot, now;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t boot_ns = (static_cast<uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<uint64_t>(now.tv_nsec)) -
                     (static_cast<uint64_t>(boot.tv_sec) * 1000000000ULL + static_cast<uint64_t>(boot.tv_nsec));
  return boot_ns + ticks * 10000000ULL;
}

// The process that wrote the journal still runs: the pid is there, and it isn't a later process with the same number.
bool is_alive(const SegmentHeader &segment) {
  constexpr uint64_t kSlackNs = 1'000'000'000;  // clock steps between then and now
  uint64_t began = process_start_ns(segment.pid);
  return began != 0 && began <= segment.start_realtime_ns + kSlackNs;
}

// The journal directory lies where everybody may write: what another user put there must not be believed.
bool is_own(int fd) {
  struct statx s;
  return sys::statx(fd, "", AT_EMPTY_PATH, STATX_UID, &s) == 0 && s.stx_uid == sys::geteuid();
}

// The file that the journal would have us write to is a trace file of this run.
bool names_trace_file(const SegmentHeader &h, string_view trace_directory) {
  string_view path = h.trace_file();
  constexpr string_view kEnd = ".pfw.gz";
  if (trace_directory.empty()) return true;
  return starts_with(path, trace_directory) && path.size() > trace_directory.size() + 1 + kEnd.size() &&
         path[trace_directory.size()] == '/' && slice(path, path.size() - kEnd.size(), kEnd.size()) == kEnd &&
         slice(path, trace_directory.size() + 1, path.size() - trace_directory.size() - 1).find('/') ==
             string_view::npos;
}

bool is_journal(const SegmentHeader &h, uint64_t file_bytes) {
  return h.magic == kJournalMagic && h.version == kJournalVersion && h.slots == kSegmentSlots &&
         h.allocated_slots.load() <= h.slots && file_bytes >= segment_bytes(h.allocated_slots.load()) &&
         h.host_bytes <= sizeof h.host && h.path_bytes < sizeof h.trace_path && h.trace_path[h.path_bytes] == 0;
}

// Cuts a torn tail off the trace file of a dead process, and tells how far (segment, epoch) has been sealed into it.
// False: the file is not one of ours, and nothing is done to it.
bool take_stock(SegmentHeader &segment, BlockWalk *walk, int fd, uint64_t file_bytes) {
  BlockPlace place;
  while (walk->next(place)) {
    uint64_t seg, epoch, slots;
    if (header_number(place.header, "seg", seg) && header_number(place.header, "epoch", epoch) &&
        header_number(place.header, "slots", slots) && seg == segment.segment && epoch == segment.epoch.load()) {
      segment.first_slot.store(static_cast<uint32_t>(slots));
    }
  }
  if (walk->foreign()) return false;
  if (walk->offset() < file_bytes) sys::ftruncate(fd, static_cast<int64_t>(walk->offset()));
  return true;
}

bool reconcile_with_trace_file(SegmentHeader &segment) {
  int fd = sys::open(segment.trace_path, O_RDWR | O_NOFOLLOW);
  if (fd < 0) return true;
  bool ours = true;
  int64_t bytes = sys::lseek(fd, 0, SEEK_END);
  void *memory = sys::allocate_pages(sizeof(BlockWalk));
  if (memory && bytes > 0) {
    auto *walk = new (memory) BlockWalk(fd, static_cast<uint64_t>(bytes));
    ours = take_stock(segment, walk, fd, static_cast<uint64_t>(bytes));
  }
  if (memory) sys::munmap(memory, sizeof(BlockWalk));
  sys::close(fd);
  return ours;
}

enum class Outcome { kSealed, kAlive, kFailed, kSkipped };

Outcome seal_mapped(SegmentHeader &segment, SealScratch &scratch, SealedJournals &result) {
  if (is_alive(segment)) return Outcome::kAlive;
  if (!reconcile_with_trace_file(segment)) return Outcome::kSkipped;
  ClockSample now = sample_clock(static_cast<ClockKind>(segment.clock_kind));
  uint64_t unwritten = 0;
  int status = seal_segment(segment, segment.allocated_slots.load(), scratch, now, &result.totals, &unwritten);
  if (status >= 0) return Outcome::kSealed;
  // What its process had to drop while it lived stands only in the journal.
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) result.unrecorded_lost[i] += segment.lost[i].load();
  if (status == -ENOENT) {
    // The run directory was removed: nobody will ever ask for these, and the journal directory is memory.
    result.unrecorded_lost[static_cast<int>(Loss::kNotWritten)] += unwritten;
    return Outcome::kSealed;
  }
  result.failed_events += unwritten;
  return Outcome::kFailed;
}

Outcome seal_one(const char *path, string_view trace_directory, SealScratch &scratch, SealedJournals &result) {
  int fd = sys::open(path, O_RDWR | O_NOFOLLOW);
  if (fd < 0) return Outcome::kSkipped;
  Outcome outcome = Outcome::kSkipped;
  int64_t bytes = sys::lseek(fd, 0, SEEK_END);
  if (is_own(fd) && sys::flock(fd, LOCK_EX | LOCK_NB) == 0 && bytes >= static_cast<int64_t>(kSegmentHeaderBytes)) {
    auto size = static_cast<size_t>(bytes);
    void *map = sys::mmap(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (map) {
      auto &segment = *static_cast<SegmentHeader *>(map);
      if (is_journal(segment, size) && names_trace_file(segment, trace_directory))
        outcome = seal_mapped(segment, scratch, result);
      sys::munmap(map, size);
    }
    if (outcome == Outcome::kSealed) sys::unlink(path);
  }
  sys::close(fd);
  return outcome;
}

}  // namespace

int seal_dead_journals(const char *directory, SealedJournals &result, string_view trace_directory) {
  int fd = sys::open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd < 0) return fd == -ENOENT ? 0 : fd;
  DIR *dir = is_own(fd) ? ::fdopendir(fd) : nullptr;
  if (!dir) {
    sys::close(fd);
    return -EPERM;
  }
  SealScratch *scratch = make_seal_scratch();
  while (scratch) {
    dirent *entry = ::readdir(dir);
    if (!entry) break;
    string_view name(entry->d_name);
    if (name.size() < 4 || slice(name, name.size() - 3, 3) != ".tj") continue;
    char path[4096 + 256];
    Writer w(path, sizeof path);
    w << string_view(directory) << '/' << name;
    switch (seal_one(w.c_str(), trace_directory, *scratch, result)) {
      case Outcome::kSealed: ++result.sealed; break;
      case Outcome::kAlive: ++result.alive; break;
      case Outcome::kFailed: ++result.failed; break;
      case Outcome::kSkipped: break;
    }
  }
  ::closedir(dir);
  if (!scratch) return -ENOMEM;
  free_seal_scratch(scratch);
  // Goes when it is empty; a process that starts now makes it anew.
  sys::rmdir(directory);
  return 0;
}

}  // namespace tailrace
