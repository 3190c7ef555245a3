// Seals the journals of dead processes: for the launcher of a node when its processes have ended, and for `tailrace
// seal`. The sealer that holds a journal's lock (flock) owns it; a living process keeps its own. A process that changed
// its user has announced that user before (session/segment_file.h): the journals of the run in that user's directory
// are sealed as well.
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include "base/sys.h"
#include "format/checked_file.h"
#include "format/detail.h"
#include "format/host_description.h"
#include "format/sealer_board.h"
#include "format/sealing.h"

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
  // With more threads, only the first has exited: by itself, or for an execve of another one, which then takes its place.
  constexpr uint64_t kExiting = 4;
  if ((state == 'Z' || (flags & kExiting)) && threads <= 1) return 0;
  timespec boot, now;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t boot_ns = (static_cast<uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<uint64_t>(now.tv_nsec)) -
                     (static_cast<uint64_t>(boot.tv_sec) * 1000000000ULL + static_cast<uint64_t>(boot.tv_nsec));
  return boot_ns + ticks * 10000000ULL;
}

// A read lease (fcntl(2)). The kernel grants it only where no process, in whatever namespace, has the file mapped or open
// for writing, and who opens it for writing then waits until the lease is given back.
class ReadLease {
 public:
  explicit ReadLease(int read_only_fd) : fd_(read_only_fd) {
    struct statfs fs;
    if (sys::call(SYS_fstatfs, fd_, sys::pointer(&fs)) < 0) return;
    // Other file systems are layered over the inode (overlayfs), or ask a server.
    bool known = fs.f_type == TMPFS_MAGIC || fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
                 fs.f_type == BTRFS_SUPER_MAGIC;
    // The signal by which a writer's open(2) asks for the lease, SIGIO, would end us.
    is_granted_ = known && sys::call(SYS_fcntl, fd_, kSetSignal, SIGURG) >= 0 &&
                  sys::call(SYS_fcntl, fd_, kSetLease, F_RDLCK) >= 0;
  }
  ~ReadLease() {
    if (is_granted_) sys::call(SYS_fcntl, fd_, kSetLease, F_UNLCK);
  }
  ReadLease(const ReadLease &) = delete;
  ReadLease &operator=(const ReadLease &) = delete;
  // False also where it can't be told.
  bool is_granted() const { return is_granted_; }

 private:
  static constexpr int kSetSignal = 10, kSetLease = 1024;
  int fd_;
  bool is_granted_ = false;
};

// Whether any process has the file mapped or open for writing; true where it can't be told.
bool is_mapped(int read_only_fd) { return !ReadLease(read_only_fd).is_granted(); }

// As is_mapped; a process has no mappings for a moment during execve.
bool stays_mapped(int read_only_fd) {
  if (is_mapped(read_only_fd)) return true;
  timespec pause{0, 20'000'000};
  sys::call(SYS_nanosleep, sys::pointer(&pause), 0);
  return is_mapped(read_only_fd);
}

// Whether a process may still write to the journal.
bool is_in_use(const SegmentHeader &segment, int read_only_fd) {
  constexpr uint64_t kSlackNs = 1'000'000'000;  // clock steps between then and now
  if (segment.holding.load() == kReserve) return stays_mapped(read_only_fd);
  if (segment.pid_namespace == 0 || segment.pid_namespace != pid_namespace()) return stays_mapped(read_only_fd);
  // The pid exists, and is no later process of the same number.
  uint64_t began = process_start_ns(segment.pid);
  if (began != 0 && began <= segment.start_realtime_ns + kSlackNs) return true;
  // Its children count their losses in it.
  return segment.homeless.load() && is_mapped(read_only_fd);
}

// The name that the process of the journal gives to its trace file.
void write_trace_name(const SegmentHeader &h, Writer &out) {
  write_process_stem(out, h.host_name(), h.pid, h.start_realtime_ns);
  out << ".pfw.gz";
}

// Whether the journal names the trace file of its process in this run.
bool names_trace_file(const SegmentHeader &h, string_view trace_directory) {
  if (trace_directory.empty()) return true;
  char expected[sizeof h.trace_path];
  Writer w(expected, sizeof expected);
  w << trace_directory << '/';
  write_trace_name(h, w);
  return !w.overflowed() && h.trace_file() == w.view();
}

// What another user's journal says of its process is his word. So it does not go to that process's own file, where it
// could stand for somebody else's, but to one with his number before the name.
bool set_trace_file_apart(SegmentHeader &h, string_view trace_directory, unsigned uid) {
  if (trace_directory.empty()) return true;
  Writer w(h.trace_path, sizeof h.trace_path - 1);
  w << trace_directory << "/u";
  w.number(uid) << '.';
  write_trace_name(h, w);
  h.path_bytes = static_cast<uint32_t>(w.size());
  return *w.c_str() != 0;
}

bool has_control_characters(string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return true;
  }
  return false;
}

bool is_journal(const SegmentHeader &h, uint64_t file_bytes) {
  return h.magic == kJournalMagic && h.version == kJournalVersion && h.slots == kSegmentSlots &&
         h.allocated_slots.load() <= h.slots && file_bytes >= segment_bytes(h.allocated_slots.load()) &&
         h.host_bytes <= sizeof h.host && !has_control_characters(h.host_name()) &&
         h.path_bytes < sizeof h.trace_path && h.trace_path[h.path_bytes] == 0;
}

}  // namespace

Sealing::Sealing(string_view trace_directory, SealedJournals &result)
    : trace_directory_bytes_(trace_directory.size()),
      result_(result),
      scratch_(make_seal_scratch()),
      copy_(sys::allocate_pages(segment_bytes(kSegmentSlots))) {
  Writer w(trace_directory_, sizeof trace_directory_);
  w << trace_directory;
  // A longer one is the folder of no journal's trace file.
  w.c_str();
  if (!trace_directory.empty()) node_file_.open_directory(trace_directory_);
}

Sealing::~Sealing() {
  if (scratch_) free_seal_scratch(scratch_);
  if (copy_) sys::munmap(copy_, segment_bytes(kSegmentSlots));
}

void Sealing::begin_account() { accounted_ns_ = processor_time_ns() - unaccounted_ns_; }

void Sealing::end_account() { unaccounted_ns_ = processor_time_ns() - accounted_ns_; }

// A copy: the program that wrote the journal, or another user, may change or cut the file at any moment, and a mapping of
// it would show a name after it was checked, or end the sealer by SIGBUS.
bool Sealing::read_copy(int fd) {
  int64_t bytes = sys::lseek(fd, 0, SEEK_END);
  if (bytes < static_cast<int64_t>(kSegmentHeaderBytes)) return false;
  auto wanted = static_cast<uint64_t>(bytes);
  return wanted <= segment_bytes(kSegmentSlots) && sys::pread(fd, copy_, wanted, 0) == bytes &&
         is_journal(copy(), wanted) && names_trace_file(copy(), {trace_directory_, trace_directory_bytes_});
}

int Sealing::append(void *self, SegmentHeader &segment, string_view member, uint32_t next_slot) {
  auto *sealing = static_cast<Sealing *>(self);
  uint64_t before = processor_time_ns();
  int status = sealing->node_file_.append(sealing->journal_fd_, sealing->dead_, segment, member, next_slot);
  sealing->result_.writing_ns += processor_time_ns() - before;
  return status;
}

// apart: to the trace file that the copy names. dead: no block of the journal follows.
Outcome Sealing::seal_copy(int fd, bool apart, bool dead) {
  SegmentHeader &segment = copy();
  if (!apart) apply_plan(segment, node_file_.directory());
  // Never beside a living process: it may be appending to its file, and knows what it has sealed of what it hands over.
  bool reconciles = dead && (apart || segment.sealed_itself.load() != kNothing);
  if (reconciles && !reconcile_with_trace_file(segment)) return Outcome::kSkipped;
  ClockSample now{segment.until_ticks, segment.until_ns};
  if (now.monotonic_ns == 0) now = sample_clock(static_cast<ClockKind>(segment.clock_kind));
  uint64_t unwritten = 0;
  journal_fd_ = fd;
  dead_ = dead;
  BlockTarget target{this, append};
  SealOptions options{apart ? nullptr : &target, dead};
  if (segment.detail == static_cast<uint32_t>(DetailKind::kAuto)) options.sealed_bytes = node_file_.bytes_in_all();
  options.canceled = canceled_;
  options.accounted_ns = &accounted_ns_;
  int status =
      seal_segment(segment, segment.allocated_slots.load(), *scratch_, now, &result_.totals, &unwritten, options);
  if (status >= 0) return Outcome::kSealed;
  if (!dead) return Outcome::kFailed;
  // Events that the process dropped while it lived are counted in the journal alone.
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) result_.unrecorded_lost[i] += segment.lost[i].load();
  if (status == -ENOENT) {
    // The run directory was removed: these records have no use, and the journal directory is memory.
    result_.unrecorded_lost[static_cast<int>(Loss::kNotWritten)] += unwritten;
    return Outcome::kSealed;
  }
  result_.failed_events += unwritten;
  return Outcome::kFailed;
}

Outcome Sealing::seal_open(int fd, unsigned uid) {
  if (!read_copy(fd)) return Outcome::kSkipped;
  SegmentHeader &segment = copy();
  if (segment.holding.load() == kReserve) {
    // For a program image that is about to map it again (session/segment.cc, adopt_segment).
    segment.holding.store(kWithdrawn);
    write_back(fd, segment, segment.holding);
    return Outcome::kEmpty;
  }
  bool own = uid == sys::geteuid();
  if (!own && !set_trace_file_apart(segment, {trace_directory_, trace_directory_bytes_}, uid)) return Outcome::kSkipped;
  Outcome outcome = seal_copy(fd, !own || trace_directory_bytes_ == 0, true);
  if (outcome == Outcome::kFailed) {
    segment.plan.epoch = 0;
    write_back_progress(fd, segment);
  }
  return outcome;
}

// Opened without the right to write, since a writer counts as a user of the journal.
Outcome Sealing::look(int directory, const char *name, unsigned uid, Look how, uint64_t *handed_ns) {
  int fd = open_regular(name, O_RDONLY, directory);
  if (fd < 0) return Outcome::kSkipped;
  SegmentHeader header{};
  Outcome outcome = Outcome::kSkipped;
  bool owned = is_owned_by(fd, uid);
  long n = owned ? sys::pread(fd, &header, sizeof header, 0) : -1;
  if (n >= 0 && header.magic.load() == 0) {
    outcome = how == Look::kQuick || is_mapped(fd) ? Outcome::kSkipped : Outcome::kBegun;
  } else if (n == sizeof header && is_journal(header, static_cast<uint64_t>(sys::lseek(fd, 0, SEEK_END))) &&
             names_trace_file(header, {trace_directory_, trace_directory_bytes_})) {
    bool reserve = header.holding.load() == kReserve, left = header.left.load() != 0;
    if (handed_ns && header.holding.load() == kHanded) {
      *handed_ns = header.until_ns;
      outcome = Outcome::kHanded;
    } else if (how == Look::kQuick && !left) {
      outcome = Outcome::kAlive;
    } else {
      outcome = !is_in_use(header, fd) ? Outcome::kEmpty
                : reserve              ? Outcome::kSkipped
                : left                 ? Outcome::kEnding
                                       : Outcome::kAlive;
    }
  }
  sys::close(fd);
  return outcome;
}

namespace {

// With the lock of a sealer; -1: it is not there to be sealed by us.
int open_locked(int directory, const char *name, unsigned uid, int flags = O_RDWR) {
  int fd = open_regular(name, flags, directory);
  // The last sealer may have removed what we have opened before it did.
  if (fd >= 0 && is_owned_by(fd, uid) && sys::flock(fd, LOCK_EX | LOCK_NB) == 0 && !is_unlinked(fd)) return fd;
  if (fd >= 0) sys::close(fd);
  return -1;
}

void remove_journal(int directory, const char *name) { sys::call(SYS_unlinkat, directory, sys::pointer(name), 0); }

// Whoever has no room for a journal removes what he began, and makes the next one of the same name. So the name is this
// file's until it is removed only while it is under both: the lock keeps other sealers from it; under the lease its
// maker is dead, or at the beginning of the open(2) that makes it, from where it returns to a file without a name
// (session/segment_file.cc, create_file).
Outcome remove_begun(int directory, const char *name, unsigned uid) {
  int fd = open_locked(directory, name, uid, O_RDONLY);
  if (fd < 0) return Outcome::kSkipped;
  {
    ReadLease lease(fd);
    uint32_t magic = 0;
    if (lease.is_granted() && !is_unlinked(fd) && sys::pread(fd, &magic, sizeof magic, 0) >= 0 && magic == 0) {
      remove_journal(directory, name);
    }
  }
  sys::close(fd);
  return Outcome::kBegun;
}

}  // namespace

Outcome Sealing::seal_one(int directory, const char *name, unsigned uid) {
  Outcome seen = look(directory, name, uid, Look::kThorough);
  if (seen == Outcome::kBegun) return remove_begun(directory, name, uid);
  if (seen != Outcome::kEmpty) return seen;
  int fd = open_locked(directory, name, uid);
  if (fd < 0) return Outcome::kSkipped;
  Outcome outcome = seal_open(fd, uid);
  if (outcome == Outcome::kSealed || outcome == Outcome::kEmpty) remove_journal(directory, name);
  sys::close(fd);
  return outcome;
}

Outcome Sealing::seal_handed(int directory, const char *name, unsigned uid) {
  int fd = open_locked(directory, name, uid);
  if (fd < 0) return Outcome::kSkipped;
  SegmentHeader &segment = copy();
  segment.claimed.store(1);
  write_back(fd, segment, segment.claimed);
  // The process sets `taken_back`, then reads `claimed`: one of the two sees the other's word (session/hand_over.h).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Outcome outcome = Outcome::kSkipped;
  if (read_copy(fd) && segment.holding.load() == kHanded && !segment.taken_back.load()) {
    // They are the process's to count, which may count more meanwhile; its last block of the segment has them.
    for (auto &lost : segment.lost) lost.store(0);
    outcome = seal_copy(fd, trace_directory_bytes_ == 0, false);
    if (outcome == Outcome::kSealed) {
      write_back(fd, segment, segment.blocks);  // a plan that was carried out before may have told it
      segment.first_slot.store(segment.allocated_slots.load());
      write_back(fd, segment, segment.first_slot);
      segment.holding.store(kSpare);
      write_back(fd, segment, segment.holding);
    }
  }
  segment.claimed.store(0);
  write_back(fd, segment, segment.claimed);
  sys::close(fd);
  return outcome;
}

void Sealing::count(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSealed: ++result_.sealed; break;
    case Outcome::kAlive:
    case Outcome::kEnding: ++result_.alive; break;
    case Outcome::kFailed: ++result_.failed; break;
    case Outcome::kEmpty:
    case Outcome::kBegun:
    case Outcome::kHanded:
    case Outcome::kSkipped: break;
  }
}

namespace {

int open_directory(int parent, const char *name) {
  return static_cast<int>(
      sys::call(SYS_openat, parent, sys::pointer(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0));
}

// Opens the directory that contains `directory`, which must be the user's or root's. A user may put a link or another
// directory in the place of his own, so that all that follows goes by descriptors. `name`: the last part of the path.
int open_parent(const char *directory, unsigned uid, const char **name) {
  char path[4096];
  string_view whole(directory);
  size_t slash = whole.rfind('/');
  if (slash == string_view::npos || slash == 0) return -EINVAL;
  Writer w(path, sizeof path);
  w << slice(whole, 0, slash);
  *name = directory + slash + 1;
  int fd = open_directory(AT_FDCWD, w.c_str());
  if (fd < 0 || is_owned_by(fd, uid) || is_owned_by(fd, 0)) return fd;
  sys::close(fd);
  return -EPERM;
}

}  // namespace

template <class Other>
int Sealing::seal_all(const char *directory, unsigned uid, Other other) {
  const char *name = "";
  int parent = open_parent(directory, uid, &name);
  if (parent < 0) return parent == -ENOENT ? 0 : parent;
  int status = seal_in(parent, name, uid, other);
  sys::close(parent);
  return status;
}

template <class Other>
int Sealing::seal_in(int parent, const char *directory, unsigned uid, Other other) {
  int fd = open_directory(parent, directory);
  if (fd < 0) return fd == -ENOENT ? 0 : fd;
  DIR *dir = is_owned_by(fd, uid) ? ::fdopendir(fd) : nullptr;
  if (!dir) {
    sys::close(fd);
    return -EPERM;
  }
  while (dirent *entry = ::readdir(dir)) {
    string_view name(entry->d_name);
    if (name.size() >= 4 && slice(name, name.size() - 3, 3) == ".tj") {
      count(seal_one(fd, entry->d_name, uid));
    } else if (name.size() > kHostMarkSuffix.size() &&
               slice(name, name.size() - kHostMarkSuffix.size(), kHostMarkSuffix.size()) == kHostMarkSuffix) {
      sys::call(SYS_unlinkat, fd, sys::pointer(entry->d_name), 0);
    } else {
      other(fd, name);
    }
  }
  ::closedir(dir);
  // Removed only when empty; a process that starts now makes it again.
  sys::call(SYS_unlinkat, parent, sys::pointer(directory), AT_REMOVEDIR);
  return 0;
}

namespace {

// The board of a sealer that was killed.
void remove_stale_board(int directory) {
  int fd = open_regular(kBoardName.data(), O_RDWR, directory);
  if (fd < 0) return;
  if (sys::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    sys::call(SYS_unlinkat, directory, sys::pointer(kBoardName.data()), 0);
  }
  sys::close(fd);
}

// <dir>/tailrace-<own uid>/<key> becomes <dir>/tailrace-<uid>/<key>. False: it has another form.
bool write_sibling(Writer &out, string_view directory, uint64_t uid) {
  constexpr string_view kStem = "/tailrace-";
  size_t slash = directory.rfind('/');
  size_t at = slash == string_view::npos ? slash : slice(directory, 0, slash).rfind('/');
  if (at == string_view::npos || !starts_with(slice(directory, at, slash - at), kStem)) return false;
  out << slice(directory, 0, at) << kStem;
  out.number(static_cast<int64_t>(uid)) << slice(directory, slash, directory.size() - slash);
  return !out.overflowed();
}

}  // namespace

bool write_trace_file_of(const char *journal, Writer &out) {
  int fd = open_regular(journal, O_RDONLY);
  if (fd < 0) return false;
  SegmentHeader header;
  bool is = is_owned_by(fd, sys::geteuid()) && sys::pread(fd, &header, sizeof header, 0) == sizeof header &&
            is_journal(header, static_cast<uint64_t>(sys::lseek(fd, 0, SEEK_END)));
  sys::close(fd);
  if (is) out << header.trace_file();
  return is && !out.overflowed();
}

int Sealing::seal_dead(const char *directory) {
  auto seal_announced = [&](int fd, string_view name) {
    char path[4096];
    uint64_t uid;
    Writer w(path, sizeof path);
    string_view rest = name;
    if (name == kBoardName) return remove_stale_board(fd);
    if (!take_decimal(rest, uid) || rest != kUserSuffix || !write_sibling(w, directory, uid)) return;
    struct statx s;
    seal_all(w.c_str(), static_cast<unsigned>(uid), [](int, string_view) {});
    if (sys::statx(AT_FDCWD, w.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &s) != -ENOENT) return;
    w.truncate(0);
    w << string_view(directory) << '/' << name;
    sys::unlink(w.c_str());
  };
  int status = is_ready() ? seal_all(directory, sys::geteuid(), seal_announced) : -ENOMEM;
  node_file_.add_to_manifest();
  return status;
}

int seal_dead_journals(const char *directory, SealedJournals &result, string_view trace_directory) {
  Sealing sealing(trace_directory, result);
  sealing.begin_account();
  return sealing.seal_dead(directory);
}

}  // namespace tailrace
