// Seals the journals of dead processes: for the launcher of a node when its processes have ended, and for `tailrace
// seal`. The sealer that holds a journal's lock (flock) owns it; a living process keeps its own. A process that changed
// its user has announced that user before (session/segment_file.h): the journals of the run in that user's directory
// are sealed as well.
#include <dirent.h>
#include <errno.h>
#include <sys/file.h>

#include "base/own_memory.h"
#include "base/sys.h"
#include "format/checked_file.h"
#include "format/choices.h"
#include "format/host_description.h"
#include "format/journal_use.h"
#include "format/sealer_board.h"
#include "format/sealing.h"
#include "format/unmapped_journals.h"

namespace tailrace {
namespace {

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
      copy_(own_memory::pages(segment_bytes(kSegmentSlots))) {
  Writer w(trace_directory_, sizeof trace_directory_);
  w << trace_directory;
  // A longer one is the folder of no journal's trace file.
  w.c_str();
  find_time_namespace();
  if (!trace_directory.empty()) node_file_.open_directory(trace_directory_);
}

Sealing::~Sealing() {
  if (scratch_) free_seal_scratch(scratch_);
  if (copy_) own_memory::release(copy_, segment_bytes(kSegmentSlots));
}

void Sealing::begin_account() { accounted_ns_ = processor_time_ns() - unaccounted_ns_; }

void Sealing::end_account() { unaccounted_ns_ = processor_time_ns() - accounted_ns_; }

// A copy: the program that wrote the journal, or another user, may change or cut the file at any moment, and a mapping
// of it would show a name after it was checked, or end the sealer by SIGBUS.
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
Outcome Sealing::look(int directory, const char *name, unsigned uid, Look how, FirstLook &first, uint64_t *handed_ns) {
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
      Use use = use_of(header, fd, first);
      outcome = use == Use::kNone       ? Outcome::kEmpty
                : use == Use::kUnmapped ? Outcome::kUnmapped
                : reserve               ? Outcome::kSkipped
                : left                  ? Outcome::kEnding
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

Outcome Sealing::seal_one(int directory, const char *name, unsigned uid, FirstLook &first) {
  Outcome seen = look(directory, name, uid, Look::kThorough, first);
  if (seen == Outcome::kBegun) return remove_begun(directory, name, uid);
  if (seen != Outcome::kEmpty) return seen;
  int fd = open_locked(directory, name, uid);
  if (fd < 0) return Outcome::kSkipped;
  // The name may be that of another file by now.
  bool is_seen = first.at_ns == 0 || was_looked_at(first, fd);
  Outcome outcome = is_seen ? seal_open(fd, uid) : Outcome::kSkipped;
  if (outcome == Outcome::kSealed || outcome == Outcome::kEmpty) remove_journal(directory, name);
  sys::close(fd);
  return outcome;
}

// The second look at a journal that was unmapped at the first, which may be sealed then.
Outcome Sealing::seal_second(int directory, const char *name, unsigned uid, FirstLook &first) {
  Outcome outcome = Outcome::kUnmapped;
  // Another file that has the name by now has a pause of its own; who makes one after the other is alive.
  for (int attempt = 0; attempt < 2 && outcome == Outcome::kUnmapped; ++attempt) {
    wait_between_looks(first.at_ns);
    outcome = seal_one(directory, name, uid, first);
  }
  return outcome == Outcome::kUnmapped ? Outcome::kAlive : outcome;
}

// `unmapped`: of the same directory, which wait for their pause.
void Sealing::seal_or_keep(int directory, const char *name, unsigned uid, UnmappedJournals &unmapped) {
  FirstLook first;
  Outcome outcome = seal_one(directory, name, uid, first);
  if (outcome == Outcome::kUnmapped && !unmapped.add(name, first)) outcome = seal_second(directory, name, uid, first);
  count(outcome);
  if (unmapped.is_full()) seal_unmapped(directory, uid, unmapped);
}

void Sealing::seal_unmapped(int directory, unsigned uid, UnmappedJournals &unmapped) {
  if (!unmapped.is_empty()) wait_between_looks(unmapped.last_look_ns());
  for (UnmappedJournals::Item &item : unmapped) count(seal_second(directory, item.name, uid, item.first));
  unmapped.clear();
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
    case Outcome::kUnmapped:
    case Outcome::kSkipped: break;
  }
}

namespace {

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
  UnmappedJournals unmapped;
  while (dirent *entry = ::readdir(dir)) {
    string_view name(entry->d_name);
    if (name.size() >= 4 && slice(name, name.size() - 3, 3) == ".tj") {
      seal_or_keep(fd, entry->d_name, uid, unmapped);
    } else if (name.size() > kHostMarkSuffix.size() &&
               slice(name, name.size() - kHostMarkSuffix.size(), kHostMarkSuffix.size()) == kHostMarkSuffix) {
      sys::call(SYS_unlinkat, fd, sys::pointer(entry->d_name), 0);
    } else {
      other(fd, name);
    }
  }
  seal_unmapped(fd, uid, unmapped);
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

void Sealing::seal_dead_in(int parent, const char *name) {
  if (is_ready()) seal_in(parent, name, sys::geteuid(), [](int, string_view) {});
}

int seal_dead_journals(const char *directory, SealedJournals &result, string_view trace_directory) {
  Sealing sealing(trace_directory, result);
  sealing.begin_account();
  return sealing.seal_dead(directory);
}

}  // namespace tailrace
