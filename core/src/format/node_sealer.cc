// See format/node_sealer.h.
#include "format/node_sealer.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "base/sys.h"
#include "format/checked_file.h"
#include "format/host_description.h"
#include "format/host_facts.h"
#include "format/journal_place.h"

namespace tailrace {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kShortestPauseNs = 1 * kMs, kLongestPauseNs = 20 * kMs;
// Of thousands of living processes a thorough look takes long; it gets one part in so many of the time.
constexpr uint64_t kThoroughEveryNs = 1000 * kMs, kThoroughShare = 20;
// The run directory is full: it may have room again later, and meanwhile processes decide for themselves.
constexpr uint64_t kRefuseNs = 1000 * kMs;
constexpr uint64_t kBeatEveryNs = 5 * kMs;

struct Entry {  // of getdents64(2)
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

// The bell of the journal <host>-<pid>-<start>.<n>.tj. False: it is no journal.
bool find_bell(string_view name, size_t &bell) {
  constexpr string_view kSuffix = ".tj";
  if (name.size() <= kSuffix.size()) return false;
  string_view rest = slice(name, 0, name.size() - kSuffix.size());
  if (slice(name, rest.size(), kSuffix.size()) != kSuffix) return false;
  size_t dot = rest.rfind('.'), start = rest.rfind('-');
  if (dot == string_view::npos || start == string_view::npos || start > dot) return false;
  size_t host = slice(rest, 0, start).rfind('-');
  if (host == string_view::npos) return false;
  uint64_t pid, segment;
  string_view digits = slice(rest, host + 1, start - host - 1), number = slice(rest, dot + 1, rest.size() - dot - 1);
  if (!take_decimal(digits, pid) || !take_decimal(number, segment)) return false;
  bell = bell_of(pid, segment);
  return true;
}

// Out of the way of the numbers that programs choose.
int moved_up(int fd) {
  int high = fd < 0 ? fd : high_descriptor(fd);
  if (high >= 0) sys::close(fd);
  return high >= 0 ? high : fd;
}

void close_if_open(int &fd) {
  if (fd >= 0) sys::close(fd);
  fd = -1;
}

}  // namespace

// What a pass found handed over, to be sealed in the order of time.
struct NodeSealer::Work {
  static constexpr size_t kMost = 256;
  struct Item {
    uint64_t until_ns;
    size_t bell;
    char name[300];
  };
  Item items[kMost];
  size_t count = 0;
  bool left_over = false;
  bool collects = false;  // what is unmapped: what an earlier pass has collected waits for its second look

  void add(uint64_t until_ns, size_t bell, string_view name) {
    left_over = left_over || count == kMost;
    if (count == kMost || name.size() >= sizeof items[0].name) return;
    Item &item = items[count++];
    item.until_ns = until_ns;
    item.bell = bell;
    memcpy(item.name, name.data(), name.size());
    item.name[name.size()] = 0;
  }
  static int compare(const void *a, const void *b) {
    uint64_t x = static_cast<const Item *>(a)->until_ns, y = static_cast<const Item *>(b)->until_ns;
    return x < y ? -1 : x > y;
  }
};

NodeSealer::NodeSealer(string_view directory, string_view trace_directory)
    : sealing_(trace_directory, result_), written_{} {
  Writer w(directory_, sizeof directory_);
  w << directory;
  w.c_str();
  sealing_.cancel_by(&stopping_);
}

NodeSealer::~NodeSealer() {
  drop_board();
  close_if_open(covered_);
}

void NodeSealer::write_board(const void *member, size_t bytes) {
  long at = static_cast<const char *>(member) - reinterpret_cast<const char *>(&written_);
  sys::call(SYS_pwrite64, board_, sys::pointer(member), static_cast<long>(bytes), at);
}

// Who launches describes its host in run.json.
static void mark_host(string_view directory) {
  char path[2600];
  Writer w(path, sizeof path);
  write_host_mark(w, directory, HostName().view());
  if (w.size() && !w.overflowed()) make_host_mark(w.c_str());
}

// Leaves board_ at -1 where another sealer has the lock.
int NodeSealer::open_board() {
  if (directory_[0] == 0) return -ENAMETOOLONG;
  char path[2200];
  // The user's directory, then the run's. The place above them is there or can't be used.
  for (size_t i = string_view(directory_).rfind('/');; i = string_view::npos) {
    bool user = i != string_view::npos;
    Writer w(path, sizeof path);
    w << (user ? slice(string_view(directory_), 0, i) : string_view(directory_));
    int status = sys::mkdir(w.c_str(), 0700);
    if (status < 0 && status != -EEXIST) return status;
    if (!is_directory_of(w.c_str(), sys::geteuid())) return -EPERM;
    if (!user) break;
  }
  Writer w(path, sizeof path);
  w << string_view(directory_) << '/' << kBoardName;
  int fd = sys::open(w.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return fd;
  int status = is_owned_by(fd, sys::geteuid()) ? 0 : -EPERM;
  bool locked = status == 0 && sys::flock(fd, LOCK_EX | LOCK_NB) == 0;
  // Between our opening and its locking, the last sealer may have ended and taken it down.
  locked = locked && !is_unlinked(fd);
  if (locked) {
    status = sys::fallocate(fd, 0, sizeof(SealerBoard));
    if (status == -EOPNOTSUPP) status = sys::ftruncate(fd, sizeof(SealerBoard));
    if (status < 0) sys::unlink(w.c_str());
  }
  if (!locked || status < 0) {
    sys::close(fd);
    return status;
  }
  board_ = moved_up(fd);
  w.truncate(0);
  w << slice(string_view(directory_), 0, string_view(directory_).rfind('/'));
  users_ = moved_up(sys::open(w.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  mark_host(directory_);
  written_.version = kJournalVersion;
  set_room();
  write_board(&written_.version, sizeof written_.version);
  beat();
  written_.magic.store(kBoardMagic);
  write_board(&written_.magic, sizeof written_.magic);
  return 0;
}

int NodeSealer::begin() { return sealing_.is_ready() ? open_board() : -ENOMEM; }

void NodeSealer::say_no_sealer() {
  written_.heartbeat_ns.store(0);
  write_board(&written_.heartbeat_ns, sizeof written_.heartbeat_ns);
}

void NodeSealer::drop_board() {
  if (!holds_board()) return;
  say_no_sealer();
  char path[2200];
  Writer w(path, sizeof path);
  w << string_view(key()) << '/' << kBoardName;
  // By the descriptor: the path may lead to another sealer's.
  if (is_board_in(key(), users_)) sys::call(SYS_unlinkat, users_, sys::pointer(w.c_str()), 0);
  close_if_open(board_);
  close_if_open(users_);
}

bool NodeSealer::is_board_in(string_view directory, int parent) const {
  char path[2200];
  Writer w(path, sizeof path);
  w << directory << '/' << kBoardName;
  struct statx own, named;
  int status = sys::statx(parent, w.c_str(), AT_SYMLINK_NOFOLLOW, STATX_INO, &named);
  if (status < 0) return status != -ENOENT && status != -ENOTDIR;
  if (sys::statx(board_, "", AT_EMPTY_PATH, STATX_INO, &own) < 0) return true;
  return own.stx_ino == named.stx_ino && own.stx_dev_major == named.stx_dev_major &&
         own.stx_dev_minor == named.stx_dev_minor;
}

void NodeSealer::beat() {
  written_.heartbeat_ns.store(monotonic_ns());
  write_board(&written_.heartbeat_ns, sizeof written_.heartbeat_ns);
}

void NodeSealer::beat_again() {
  uint64_t last = written_.heartbeat_ns.load();
  if (last && monotonic_ns() - last > kBeatEveryNs) beat();
}

// Journals are memory in most places: a quarter of it stays free.
void NodeSealer::set_room() {
  struct statfs fs;
  bool room = monotonic_ns() >= refusing_until_ns_ && sys::call(SYS_fstatfs, board_, sys::pointer(&fs)) == 0 &&
              (fs.f_blocks == 0 || fs.f_bavail > fs.f_blocks / 4);
  if (written_.has_room.load() == (room ? 1U : 0U)) return;
  written_.has_room.store(room);
  write_board(&written_.has_room, sizeof written_.has_room);
}

void NodeSealer::refuse_for_a_while() {
  if (!stopping_.load()) refusing_until_ns_ = monotonic_ns() + kRefuseNs;
}

// What fails here is tried again, and counted at the last attempt.
Outcome NodeSealer::seal_ended(int directory, const char *name, FirstLook &first) {
  SealedJournals before = result_;
  Outcome outcome = sealing_.seal_one(directory, name, sys::geteuid(), first);
  if (outcome == Outcome::kSealed) ++result_.sealed;
  if (outcome == Outcome::kFailed) {
    result_ = before;
    refuse_for_a_while();
  }
  return outcome;
}

void NodeSealer::seal_in_order(int directory, Work &work) {
  qsort(work.items, work.count, sizeof work.items[0], Work::compare);
  for (size_t i = 0; i < work.count; ++i) {
    Work::Item &item = work.items[i];
    bool refused = monotonic_ns() < refusing_until_ns_ || stopping_.load();
    Outcome outcome = refused ? Outcome::kFailed : sealing_.seal_handed(directory, item.name, sys::geteuid());
    if (outcome == Outcome::kFailed && !refused) refuse_for_a_while();
    if (outcome == Outcome::kFailed) pending_[item.bell] = true;
    beat_again();
  }
}

// Whether there was something to seal. What is not done yet is looked at again in the next pass.
bool NodeSealer::note(Outcome outcome, size_t bell) {
  if (outcome == Outcome::kEnding || outcome == Outcome::kFailed) pending_[bell] = true;
  return outcome == Outcome::kHanded || outcome == Outcome::kSealed || outcome == Outcome::kEnding;
}

bool NodeSealer::visit(int directory, const char *name, size_t bell, Look how, Work &work) {
  uint64_t until_ns = 0;
  FirstLook first;
  Outcome outcome = sealing_.look(directory, name, sys::geteuid(), how, first, &until_ns);
  if (outcome == Outcome::kHanded) work.add(until_ns, bell, name);
  if (outcome == Outcome::kUnmapped && !(work.collects && unmapped_.add(name, first))) pending_[bell] = true;
  if (outcome == Outcome::kBegun || outcome == Outcome::kEmpty) outcome = seal_ended(directory, name, first);
  beat_again();
  return note(outcome, bell);
}

bool NodeSealer::is_due(uint64_t now) const {
  return !unmapped_.is_empty() && now >= unmapped_.last_look_ns() + kBetweenLooksNs;
}

// The second look at what an earlier pass found unmapped. True: there was something to seal.
bool NodeSealer::seal_unmapped(int directory) {
  bool busy = false;
  for (UnmappedJournals::Item &item : unmapped_) {
    if (stopping_.load() || monotonic_ns() < refusing_until_ns_) return busy;
    size_t bell;
    Outcome outcome = seal_ended(directory, item.name, item.first);
    if (find_bell(item.name, bell)) busy = note(outcome, bell) || busy;
    beat_again();
  }
  unmapped_.clear();
  return busy;
}

// One look at the journals for which a bell has moved, and once a second at all: a killed process moves none. True:
// there was something to seal.
bool NodeSealer::pass() {
  uint64_t now = monotonic_ns();
  SealerBoard board;
  if (sys::pread(board_, &board, sizeof board, 0) != static_cast<long>(sizeof board)) return false;
  bool thorough = now >= next_thorough_ns_;
  bool due[kBells], any = thorough || is_due(now);
  for (size_t i = 0; i < kBells; ++i) {
    uint32_t bell = board.bells[i].load();
    due[i] = pending_[i] || bell != bells_[i];
    any = any || due[i];
    bells_[i] = bell;
  }
  set_room();
  if (!any || now < refusing_until_ns_) {
    for (size_t i = 0; i < kBells; ++i) pending_[i] = due[i];
    return false;
  }
  memset(pending_, 0, sizeof pending_);
  int directory = open_directory(users_, key());
  if (directory < 0) return false;
  auto *work = static_cast<Work *>(malloc(sizeof(Work)));
  bool busy = false;
  if (work && is_owned_by(directory, sys::geteuid())) {
    work->count = 0;
    work->left_over = false;
    if (is_due(now)) busy = seal_unmapped(directory);
    work->collects = unmapped_.is_empty();
    alignas(8) char entries[32768];
    long n;
    while (!stopping_.load() && (n = sys::call(SYS_getdents64, directory, sys::pointer(entries), sizeof entries)) > 0) {
      for (long at = 0; at < n;) {
        auto *entry = reinterpret_cast<const Entry *>(entries + at);
        at += entry->bytes;
        size_t bell;
        if (!find_bell(entry->name, bell) || !(thorough || due[bell])) continue;
        busy = visit(directory, entry->name, bell, thorough ? Look::kThorough : Look::kQuick, *work) || busy;
      }
    }
    seal_in_order(directory, *work);
    if (thorough) {
      uint64_t after = monotonic_ns(), took = after - now;
      next_thorough_ns_ = after + (kThoroughShare * took > kThoroughEveryNs ? kThoroughShare * took : kThoroughEveryNs);
    }
    if (work->left_over) next_thorough_ns_ = 0;
  }
  free(work);
  sys::close(directory);
  written_.seen.store(board.ended.load());
  write_board(&written_.seen, sizeof written_.seen);
  return busy;
}

void NodeSealer::pause(uint64_t ns) {
  timespec t{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  sys::call(SYS_futex, sys::pointer(&stopping_), FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, sys::pointer(&t));
}

// Its lock is ours, so that no other sealer took it down. The next one is put up where later processes look for it. A
// place over which a file system was mounted is still there, and sealed at the end.
void NodeSealer::notice_removal() {
  if (!holds_board() || is_board_in(string_view(directory_), AT_FDCWD)) return;
  if (covered_ < 0 && is_board_in(key(), users_)) {
    covered_ = high_descriptor(users_);
  } else {
    ++result_.removed;
    sealing_.note_removed_journals();
  }
  drop_board();
}

void NodeSealer::run() {
  // Of this thread. With SCHED_IDLE or nice 19, stop() would wait up to a second on a busy node until the thread has
  // the turn in which it finds that it is to stop.
  setpriority(PRIO_PROCESS, 0, 10);
  prctl(PR_SET_NAME, "tailrace-seal");
  uint64_t pause_ns = kShortestPauseNs;
  sealing_.begin_account();
  while (!stopping_.load()) {
    notice_removal();
    bool busy = false;
    if (holds_board() || (open_board() == 0 && holds_board())) {
      beat();
      busy = pass();
    }
    pause_ns = busy ? kShortestPauseNs : pause_ns * 2 < kLongestPauseNs ? pause_ns * 2 : kLongestPauseNs;
    pause(holds_board() ? pause_ns : 10 * kLongestPauseNs);
  }
  if (holds_board()) say_no_sealer();
  sealing_.end_account();
  processor_ns_ += processor_time_ns();
}

int NodeSealer::seal_dead(const char *directory) {
  uint64_t before = processor_time_ns();
  sealing_.begin_account();
  stopping_.store(0);
  refusing_until_ns_ = 0;
  notice_removal();
  if (holds_board()) {
    // What processes that go on have handed over.
    say_no_sealer();
    next_thorough_ns_ = 0;
    pass();
    drop_board();
  }
  if (covered_ >= 0) sealing_.seal_dead_in(covered_, key());
  close_if_open(covered_);
  int status = sealing_.seal_dead(directory);
  sealing_.end_account();
  processor_ns_ += processor_time_ns() - before;
  return status;
}

void NodeSealer::stop() {
  stopping_.store(1);
  sys::futex(&stopping_, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
}

}  // namespace tailrace
