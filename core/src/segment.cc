// See segment.h.
#include "segment.h"

#include <string.h>

#include "ledger.h"
#include "own_stack.h"
#include "path_buffer.h"
#include "sys.h"

namespace tailrace {
namespace {

constexpr int kEnoent = 2, kEopnotsupp = 95, kEexist = 17;

Slot *slots_of(SegmentHeader *s) { return s->slot(0); }

const char *segment_path(uint32_t index, const PathBuffer &buffer) {
  Writer w(buffer.data(), kPathBytes);
  w << string_view(g_session.journal_stem) << '.';
  w.number(index) << ".tj";
  return w.c_str();
}

// The run's journal directory, made by whoever comes first. It is the user's alone.
void make_directories(const char *path) {
  PathBuffer copy;
  char *buffer = copy.data();
  size_t n = strlen(path);
  memcpy(buffer, path, n + 1);
  for (size_t i = g_session.environment[Setting::TAILRACE_JOURNAL_DIR].size() + 1; i < n; ++i) {
    if (buffer[i] != '/') continue;
    buffer[i] = 0;
    sys::mkdir(buffer, 0700);
    buffer[i] = '/';
  }
}

// In a directory that all may write to, a place that another user made is not ours to trust.
bool directory_is_ours(const char *path) {
  PathBuffer copy;
  char *buffer = copy.data();
  size_t n = string_view(path).rfind('/');
  n = string_view(path, n).rfind('/');
  memcpy(buffer, path, n);
  buffer[n] = 0;
  struct statx s;
  if (sys::statx(AT_FDCWD, buffer, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_UID, &s) < 0) return false;
  return S_ISDIR(s.stx_mode) && s.stx_uid == sys::geteuid();
}

int create_segment_file(const char *path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
  int fd = sys::open(path, kFlags, 0600);
  if (fd == -kEnoent) {
    make_directories(path);
    fd = sys::open(path, kFlags, 0600);
  }
  if (fd >= 0 && !directory_is_ours(path)) {
    sys::unlink(path);
    sys::close(fd);
    return -kEexist;
  }
  return fd;
}

// Pages that are there when they are written to, or an error now.
int allocate_file(int fd, size_t from, size_t to) {
  if (to > sys::file_size_limit()) return -27;  // EFBIG
  int status = sys::fallocate(fd, static_cast<int64_t>(from), static_cast<int64_t>(to - from));
  if (status != -kEopnotsupp) return status;
  static const char zeros[4096] = {};
  for (size_t at = from; at < to; at += sizeof zeros) {
    long n = sys::call(SYS_pwrite64, fd, sys::pointer(zeros), sizeof zeros, static_cast<long>(at));
    count_own(0, n);
    if (n != sizeof zeros) return n < 0 ? static_cast<int>(n) : -28;
  }
  return 0;
}

SegmentHeader *map_segment(int fd) {
  size_t bytes = segment_bytes(kSegmentSlots);
  void *map = sys::mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  if (!map) return nullptr;
  if (sys::madvise(map, bytes, MADV_DONTFORK) < 0) {
    sys::munmap(map, bytes);
    return nullptr;
  }
  return static_cast<SegmentHeader *>(map);
}

void write_segment_header(SegmentHeader *s, uint32_t index, uint32_t tid) {
  const Session &g = g_session;
  ClockSample now = sample_clock(g.clock_kind);
  s->version = kJournalVersion;
  s->slots = kSegmentSlots;
  s->allocated_slots.store(kFirstSlots, std::memory_order_relaxed);
  s->segment = index;
  s->pid = g.pid;
  s->start_realtime_ns = g.start_realtime_ns;
  s->start_monotonic_ns = g.start.monotonic_ns;
  s->reference_rate_q32 = g.reference_rate_q32;
  s->clock_kind = static_cast<uint32_t>(g.clock_kind);
  s->from_ticks = now.ticks;
  s->from_ns = now.monotonic_ns;
  s->first_tid = tid;
  s->epoch.store(1, std::memory_order_relaxed);
  s->host_bytes = static_cast<uint32_t>(strlen(g.host));
  memcpy(s->host, g.host, s->host_bytes);
  s->path_bytes = static_cast<uint32_t>(strlen(g.trace_path));
  memcpy(s->trace_path, g.trace_path, s->path_bytes);
  std::atomic_thread_fence(std::memory_order_release);
  s->magic = kJournalMagic;
}

void forget_names(Thread *t) {
  memset(t->names, 0, sizeof t->names);
  memset(t->contexts, 0, sizeof t->contexts);
}

void set_deadline(Thread *t, uint64_t from_ticks) {
  t->deadline_ticks = g_session.sealed_for_exit ? 0 : from_ticks + g_session.block_age_ticks;
}

void attach_segment(Thread *t, SegmentHeader *s, uint32_t used) {
  t->segment = s;
  t->begin = slots_of(s);
  t->next = t->begin + used;
  t->limit = t->begin + s->allocated_slots.load(std::memory_order_relaxed);
  t->epoch = s->epoch.load(std::memory_order_relaxed);
  forget_names(t);
  set_deadline(t, s->from_ticks);
}

uint32_t used_slots(const Thread *t) {
  const Slot *end = t->next < t->limit ? t->next : t->limit;
  return static_cast<uint32_t>(end - t->begin);
}

bool grow(Thread *t) {
  uint32_t allocated = t->segment->allocated_slots.load(std::memory_order_relaxed);
  if (allocated >= kSegmentSlots) return false;
  PathBuffer path;
  int fd = sys::open(segment_path(t->segment->segment, path), O_RDWR | O_NOFOLLOW);
  if (fd < 0) return false;
  int status = allocate_file(fd, segment_bytes(allocated), segment_bytes(kSegmentSlots));
  sys::close(fd);
  if (status < 0) return false;
  t->segment->allocated_slots.store(kSegmentSlots, std::memory_order_release);
  t->limit = t->begin + kSegmentSlots;
  return true;
}

// seal_segment's arguments and results, for the way over to the other stack.
struct SealJob {
  SegmentHeader *segment;
  uint32_t used;
  SealScratch *scratch;
  ClockSample now;
  uint64_t unwritten;
  int status;
  SealTotals totals;
};

void do_seal_job(void *raw) {
  auto *job = static_cast<SealJob *>(raw);
  job->status = seal_segment(*job->segment, job->used, *job->scratch, job->now, &job->totals, &job->unwritten);
}

// Sealing lock held.
bool prepare_sealing() {
  Session &g = g_session;
  if (!g.scratch) g.scratch = make_seal_scratch();
  if (!g.seal_stack) g.seal_stack = static_cast<char *>(sys::allocate_pages(kOwnStackBytes));
  return g.scratch && g.seal_stack;
}

enum class IfUnwritten { kDrop, kKeep };

// Sealing lock held. What can't be written is dropped and counted, so that the segment can be filled again, or kept for
// the launcher. False: it was kept.
bool seal_and_empty(Thread *t, IfUnwritten policy) {
  Session &g = g_session;
  take_captured(t);
  SealJob job{t->segment, used_slots(t), nullptr, sample_clock(g.clock_kind), used_slots(t), -12 /* ENOMEM */, {}};
  if (prepare_sealing()) {
    job.scratch = g.scratch;
    call_on_stack(do_seal_job, &job, g.seal_stack + kOwnStackBytes);
  }
  count_own(0, static_cast<int64_t>(job.totals.file_bytes));
  if (job.status < 0) {
    if (policy == IfUnwritten::kKeep) return false;
    t->segment->lost[static_cast<int>(Loss::kNotWritten)].fetch_add(job.unwritten, std::memory_order_relaxed);
  }
  empty_segment(*t->segment, job.now, t->tid);
  t->epoch = t->segment->epoch.load(std::memory_order_relaxed);
  t->next = t->begin;
  if (t->captured_to) t->captured_to = t->begin;
  forget_names(t);
  set_deadline(t, job.now.ticks);
  return true;
}

// How far the previous program image had come.
uint32_t find_used(SegmentHeader *s) {
  auto epoch = static_cast<uint16_t>(s->epoch.load(std::memory_order_relaxed));
  uint32_t n = s->allocated_slots.load(std::memory_order_relaxed);
  while (n > 0 && mark_epoch(s->slot(n - 1)->mark.load(std::memory_order_relaxed)) != epoch) --n;
  return n;
}

SegmentHeader *reopen_segment(uint32_t index) {
  PathBuffer path;
  int fd = sys::open(segment_path(index, path), O_RDWR | O_NOFOLLOW);
  if (fd < 0) return nullptr;
  int64_t bytes = sys::lseek(fd, 0, SEEK_END);
  SegmentHeader *s = bytes >= static_cast<int64_t>(segment_bytes(kFirstSlots)) ? map_segment(fd) : nullptr;
  sys::close(fd);
  if (!s) return nullptr;
  bool ours = s->magic == kJournalMagic && s->version == kJournalVersion && s->slots == kSegmentSlots &&
              s->pid == g_session.pid && static_cast<int64_t>(segment_bytes(s->allocated_slots.load())) <= bytes;
  if (ours) return s;
  sys::munmap(s, segment_bytes(kSegmentSlots));
  return nullptr;
}

}  // namespace

void open_segment(Thread *t) {
  PathBuffer path;
  uint32_t index = g_session.segment_count;
  int fd = create_segment_file(segment_path(index, path));
  SegmentHeader *s = nullptr;
  if (fd >= 0) {
    if (allocate_file(fd, 0, segment_bytes(kFirstSlots)) == 0) s = map_segment(fd);
    if (!s) sys::unlink(path.data());
    sys::close(fd);
  }
  t->segment = s;
  t->begin = t->next = t->limit = nullptr;
  if (!s) return;
  g_session.segment_count = index + 1;
#ifdef MADV_POPULATE_WRITE
  // One call instead of a fault a page; older kernels say no, and fault.
  sys::madvise(s, segment_bytes(kFirstSlots), MADV_POPULATE_WRITE);
#endif
  write_segment_header(s, index, t->tid);
  s->lost[static_cast<int>(Loss::kNoJournal)].fetch_add(g_session.unhoused_losses.exchange(0));
  house_ledger(s);
  attach_segment(t, s, 0);
}

static void adopt_segment(SegmentHeader *s) {
  Thread *t = s ? new_thread() : nullptr;
  if (s && s->ledger.known) g_session.ledger = &s->ledger;
  if (t) attach_segment(t, s, find_used(s));
}

bool adopt_segments(uint32_t count, uint32_t mine) {
  SegmentHeader *first = reopen_segment(mine);
  if (!first) return false;
  g_session.segment_count = count;
  g_session.start.monotonic_ns = first->start_monotonic_ns;
  g_session.reference_rate_q32 = first->reference_rate_q32;
  for (uint32_t i = 0; i < count; ++i) {
    if (i != mine) adopt_segment(reopen_segment(i));
  }
  // Last, so that it is on top of the list: the first thread takes it.
  adopt_segment(first);
  return true;
}

void note_thread(Thread *t) {
  auto *head = reinterpret_cast<HeadSlot *>(reserve(t, 1));
  if (!head) return;
  head->tid = t->tid;
  head->mark.store(make_mark(kThreadRecord, static_cast<uint16_t>(t->epoch)), std::memory_order_release);
}

void forget_scratch() {
  if (g_session.scratch) free_seal_scratch(g_session.scratch);
  g_session.scratch = nullptr;
}

bool make_room(Thread *t, uint32_t slots) {
  sys::SignalsBlocked signals;
  if (!t->segment) {
    if (t->retry_events > 0) {
      --t->retry_events;
      return false;
    }
    t->retry_events = 1024;
    Locked lock(g_session.wiped->table);
    open_segment(t);
    return t->segment != nullptr;
  }
  if (t->next > t->limit) t->next = t->limit;
  if (grow(t) && t->next + slots <= t->limit) return true;
  Locked lock(g_session.wiped->sealing);
  seal_and_empty(t, IfUnwritten::kDrop);
  return t->next + slots <= t->limit;
}

Slot *reserve_slowly(Thread *t, uint32_t n) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (!make_room(t, n)) return nullptr;
    Slot *slot = take_slots(t, n);
    if (slot + n <= t->limit) return slot;
  }
  return nullptr;
}

void seal_thread(Thread *t) {
  if (!t->segment) return;
  Locked lock(g_session.wiped->sealing);
  // What can't be written now may be later; only a full segment has to be emptied.
  if (t->next != t->begin && !seal_and_empty(t, IfUnwritten::kKeep)) set_deadline(t, now_ticks());
}

void seal_for_exit() {
  Session &g = g_session;
  Thread *self = t_thread;
  Locked lock(g.wiped->sealing);
  g.sealed_for_exit = true;
  for (Thread *t = g.threads; t; t = t->next_thread) {
    // What another thread still writes to is left to whoever launched the process, and so is what can't be written
    // here: the process may have given up the right to (setuid), or be out of descriptors.
    if (!t->segment || (t != self && t->in_use.load(std::memory_order_acquire))) continue;
    if (!seal_and_empty(t, IfUnwritten::kKeep)) continue;
    bool lossless = true;
    for (auto &n : t->segment->lost) lossless = lossless && n.load() == 0;
    PathBuffer path;
    if (lossless) sys::unlink(segment_path(t->segment->segment, path));
  }
}

void count_loss(Thread *t, Loss cause) {
  if (t && t->segment) {
    t->segment->lost[static_cast<int>(cause)].fetch_add(1, std::memory_order_relaxed);
  } else {
    g_session.unhoused_losses.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace tailrace
