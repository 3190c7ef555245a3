// See session/segment.h.
#include "session/segment.h"

#include <errno.h>
#include <string.h>

#include "base/own_memory.h"
#include "base/private_stack.h"
#include "base/sys.h"
#include "session/hand_over.h"
#include "session/ledger.h"
#include "session/own_descriptors.h"
#include "session/reserve.h"
#include "session/segment_file.h"
#include "session/waits.h"

namespace tailrace {
namespace {

Slot *slots_of(SegmentHeader *s) { return s->slot(0); }

// Nothing is left in the file that the run does not have.
bool is_done(const SegmentHeader *s) {
  bool done = s->homeless.load() == 0;
  for (const auto &n : s->lost) done = done && n.load() == 0;
  return done;
}

void forget_names(Thread *t) {
  memset(t->names, 0, sizeof t->names);
  memset(t->contexts, 0, sizeof t->contexts);
  forget_waits(t);
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
  if (t->captured_to) t->captured_to = t->next;
  forget_names(t);
  set_deadline(t, s->from_ticks);
}

uint32_t used_slots(const Thread *t) {
  const Slot *end = t->next < t->limit ? t->next : t->limit;
  return static_cast<uint32_t>(end - t->begin);
}

// Extends the segment to its full size if possible. Another thread may have done so already (session/reserve.cc).
bool grow(Thread *t) {
  Locked lock(g_wiped.table);  // the file's name is found by the run
  if (t->limit - t->begin >= kSegmentSlots || !extend_segment_file(t->segment)) return false;
  t->limit = t->begin + kSegmentSlots;
  return true;
}

// Arguments and results of seal_segment, to be passed to the other stack.
struct SealJob {
  SegmentHeader *segment;
  uint32_t used;
  SealScratch *scratch;
  ClockSample now;
  uint64_t unwritten;
  int status;
  SealTotals totals;
  SealOptions options;
};

void do_seal_job(void *raw) {
  auto *job = static_cast<SealJob *>(raw);
  // Here, since another task may run it (with_descriptor).
  uint64_t accounted_ns = processor_time_ns() - g_session.unaccounted_ns;
  job->options.accounted_ns = &accounted_ns;
  job->options.by_process = true;
  job->status =
      seal_segment(*job->segment, job->used, *job->scratch, job->now, &job->totals, &job->unwritten, job->options);
  g_session.unaccounted_ns = processor_time_ns() - accounted_ns;
  count_own(static_cast<int64_t>(job->totals.run_json_bytes), static_cast<int64_t>(job->totals.file_bytes));
}

// Sealing lock held.
bool prepare_sealing() {
  Session &g = g_session;
  if (!g.scratch) g.scratch = make_seal_scratch();
  if (!g.seal_stack) g.seal_stack = static_cast<char *>(own_memory::pages(kPrivateStackBytes));
  return g.scratch && g.seal_stack;
}

void run_seal_job(void *job) { call_on_stack(do_seal_job, job, g_session.seal_stack + kPrivateStackBytes); }

// Call with the sealing lock held.
void seal_slots(SealJob &job) {
  job.segment->sealed_itself.store(kNow, std::memory_order_release);
  if (prepare_sealing()) {
    job.scratch = g_session.scratch;
    with_descriptor(run_seal_job, &job, job.status);
  }
}

// Call with the sealing lock held. Writes out what it can; the caller then empties the segment.
SealJob seal_records(Thread *t, bool last = false) {
  take_captured(t);
  SealJob job{t->segment,    used_slots(t), nullptr, sample_clock(g_session.clock_kind),
              used_slots(t), -ENOMEM,       {},      {nullptr, last}};
  seal_slots(job);
  return job;
}

void begin_epoch(Thread *t, const ClockSample &now) {
  ClockSample end = now;
  empty_segment(*t->segment, now, map_until(*t->segment, end).rate_q32, t->tid);
  t->epoch = t->segment->epoch.load(std::memory_order_relaxed);
  t->next = t->begin;
  if (t->captured_to) t->captured_to = t->begin;
  forget_names(t);
  set_deadline(t, now.ticks);
}

// Call with the sealing lock held. False when the records can't be written now; the launcher may later.
bool seal_and_empty(Thread *t, bool last = false) {
  SealJob job = seal_records(t, last);
  if (job.status >= 0) {
    begin_epoch(t, job.now);
  } else {
    forget_waits(t);  // some may be in a block
  }
  t->segment->sealed_itself.store(kBefore, std::memory_order_release);
  return job.status >= 0;
}

// Full segments that this process may leave to the launcher: 16 MiB.
constexpr uint32_t kMaxKept = 64;

// Call with the sealing lock held. Gives the thread another segment and leaves its own, whose records this process may
// not write to the trace file, to the launcher.
bool leave_segment(Thread *t, int status) {
  Session &g = g_session;
  Locked lock(g_wiped.table);
  SegmentHeader *s = nullptr;
  bool may_make = (status == -EACCES || status == -EPERM) && g.kept_segments < kMaxKept;
  if (may_make) s = make_segment(kSegmentSlots, t->tid);
  if (!s) s = take_reserve(t->tid, kReserveSegments / 2);
  if (!s) return false;
  ++g.kept_segments;
  // A new epoch tells the writer of records to write names and context again.
  uint32_t epoch = t->epoch + 1;
  s->epoch.store((epoch & 0xFFFF) ? epoch : epoch + 1, std::memory_order_relaxed);
  attach_segment(t, s, 0);
  return true;
}

bool hand_over(Thread *t) {
  take_captured(t);
  Locked lock(g_wiped.table);
  SegmentHeader *next = exchange_segment(t);
  if (next) attach_segment(t, next, 0);
  return next != nullptr;
}

// Makes room in a full segment: it is handed over, sealed, or left to the launcher, or its records are dropped and
// counted as lost. One that no sealer finds is sealed here, if that is possible.
void make_room_in_full(Thread *t) {
  const bool is_found = is_named(t->segment);
  if (is_found && hand_over(t)) return;
  Locked lock(g_wiped.sealing);
  SealJob job = seal_records(t);
  if (job.status < 0 && (leave_segment(t, job.status) || (!is_found && hand_over(t)))) return;
  if (job.status < 0) {
    t->segment->lost[static_cast<int>(Loss::kNotWritten)].fetch_add(job.unwritten, std::memory_order_relaxed);
  }
  begin_epoch(t, job.now);
  t->segment->sealed_itself.store(kBefore, std::memory_order_release);
}

// The slots that the previous program image has used.
uint32_t find_used(SegmentHeader *s) {
  auto epoch = static_cast<uint16_t>(s->epoch.load(std::memory_order_relaxed));
  uint32_t n = s->allocated_slots.load(std::memory_order_relaxed);
  while (n > 0 && mark_epoch(s->slot(n - 1)->mark.load(std::memory_order_relaxed)) != epoch) --n;
  return n;
}

}  // namespace

void open_segment(Thread *t) {
  SegmentHeader *s = make_segment(kFirstSlots, t->tid);
  if (!s) s = take_reserve(t->tid);
  t->segment = s;
  t->begin = t->next = t->limit = nullptr;
  if (!s) return;
  move_ledger_to(s);
  attach_segment(t, s, 0);
}

static void adopt_segment(SegmentHeader *s) {
  if (!s || s->holding.load() == kWithdrawn) return;
  if (s->sealed_itself.load() == kNow) {
    // Where the trace file is gone or another's, the dead process's sealer or the next block finds that, too.
    reconcile_with_trace_file(*s);
    s->sealed_itself.store(kBefore);
  }
  if (s->holding.load() == kHanded || s->holding.load() == kSpare) {
    if (s->ledger.known) g_session.ledger = &s->ledger;
    return keep_for_exchange(s);
  }
  s->holding.store(kHeld);
  s->left.store(0);
  Thread *t = new_thread();
  if (s->ledger.known) g_session.ledger = &s->ledger;
  uint32_t used = find_used(s);
  if (used == 0) s->first_slot.store(0);
  if (t) attach_segment(t, s, used);
}

bool adopt_segments(uint32_t count, uint32_t mine) {
  SegmentHeader *first = reopen_segment_file(mine, Sharing::kHeaderWithChildren);
  if (!first) return false;
  g_session.first_segment = first;
  g_session.segment_count = count;
  g_session.start.monotonic_ns = first->start_monotonic_ns;
  g_session.reference_rate_q32 = first->reference_rate_q32;
  // Until execve ended them, other threads may have made more than TAILRACE_PROCESS says.
  for (uint32_t i = 0;; ++i) {
    SegmentHeader *s = i == mine ? first : reopen_segment_file(i, Sharing::kThisProcess);
    if (!s && i >= count) break;
    if (i != mine) adopt_segment(s);
    if (i >= count) g_session.segment_count = i + 1;
  }
  // Last, so that it is first in the list and the first thread takes it.
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
    Locked lock(g_wiped.table);
    open_segment(t);
    return t->segment != nullptr;
  }
  if (t->next > t->limit) t->next = t->limit;
  if (grow(t) && t->next + slots <= t->limit) return true;
  make_room_in_full(t);
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
  Locked lock(g_wiped.sealing);
  // Records that can't be written now may be later; only a full segment has to be emptied.
  if (t->next != t->begin && !seal_and_empty(t)) set_deadline(t, now_ticks());
}

void seal_idle_threads() {
  sys::SignalsBlocked signals;
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    {
      // Only one that no new thread can take meanwhile (session.cc, free_thread).
      Locked lock(g_wiped.table);
      if (t->in_use.load(std::memory_order_acquire) || !t->segment || t->next == t->begin) continue;
      t->in_use.store(1, std::memory_order_relaxed);
    }
    seal_thread(t);
    t->in_use.store(0, std::memory_order_release);
  }
}

// At a task's end only where it has some hundred records or a second's: a block costs more than an empty task of Parsl,
// and the journal loses nothing meanwhile.
void pass_on(Thread *t) {
  sys::SignalsBlocked signals;
  if (t->segment && t->next != t->begin && !(is_named(t->segment) && hand_over(t))) seal_thread(t);
}

// The events in a segment that are not sealed.
static uint64_t count_events(SegmentHeader *s) {
  const auto epoch = static_cast<uint16_t>(s->epoch.load(std::memory_order_relaxed));
  uint64_t count = 0;
  for (uint32_t i = s->first_slot.load(); i < s->allocated_slots.load(std::memory_order_relaxed); ++i) {
    const uint32_t mark = s->slot(i)->mark.load(std::memory_order_acquire);
    count += mark_epoch(mark) == epoch && mark_kind(mark) != kEmptyRecord && mark_kind(mark) < kFunctionCount;
  }
  return count;
}

// Nobody else finds the segment, and this process can't seal it: its events are counted in the thread's own.
static void give_up(SegmentHeader *s) {
  Thread *t = t_thread;
  SegmentHeader *counts = t && t->segment && t->segment != s ? t->segment : g_session.first_segment;
  if (counts) counts->lost[static_cast<int>(Loss::kNotWritten)].fetch_add(count_events(s), std::memory_order_relaxed);
}

// Seals a segment as its thread has left it, or leaves it at this moment. The process ends, or is replaced.
static bool seal_as_it_is(SegmentHeader *s) {
  const uint32_t slots = s->allocated_slots.load(std::memory_order_relaxed);
  const bool is_handed = s->holding.load() == kHanded && s->until_ns;
  ClockSample until = is_handed ? ClockSample{s->until_ticks, s->until_ns} : sample_clock(g_session.clock_kind);
  SealJob job{s, slots, nullptr, until, slots, -ENOMEM, {}, {nullptr, true}};
  seal_slots(job);
  s->sealed_itself.store(kBefore, std::memory_order_release);
  return job.status >= 0;
}

// The sealer may have opened the file before it lost its name. Sealing takes it milliseconds, so they are waited for.
static bool take_back_unnamed(SegmentHeader *s) {
  static constexpr timespec kPause{0, 1'000'000};
  for (int i = 0; i < 100 && !take_back(s); ++i) sys::call(SYS_nanosleep, sys::pointer(&kPause), 0);
  return take_back(s);
}

// Of what was handed over, that which the sealer has not begun with. The rest is a sealer's of dead processes.
static void seal_handed() {
  Session &g = g_session;
  for (uint32_t i = 0; i < g.spare_count; ++i) {
    SegmentHeader *s = g.spares[i].segment;
    const bool is_found = is_named(s);
    const bool is_ours = is_found ? take_back(s) : take_back_unnamed(s);
    if (is_ours && seal_as_it_is(s)) {
      if (is_done(s)) remove_segment_file(s);
    } else if (!is_found && s->holding.load() != kSpare) {
      give_up(s);
    }
  }
}

// Table lock held.
static bool are_named() {
  const Session &g = g_session;
  for (const Thread *t = g.threads; t; t = t->next_thread) {
    if (t->segment && !is_named(t->segment)) return false;
  }
  for (uint32_t i = 0; i < g.spare_count; ++i) {
    if (!is_named(g.spares[i].segment)) return false;
  }
  return true;
}

// Seals those of threads that run on: what these record from now on is lost with the segment. Sealing lock held.
static void seal_unnamed_of_others() {
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    if (t == t_thread || !t->in_use.load(std::memory_order_acquire) || !t->segment || is_named(t->segment)) continue;
    if (!seal_as_it_is(t->segment)) give_up(t->segment);
  }
}

void seal_unnamed() {
  sys::SignalsBlocked signals;
  Locked lock(g_wiped.sealing);
  {
    Locked table(g_wiped.table);
    if (are_named()) return;
    seal_handed();
    drop_spares();
    seal_unnamed_of_others();
  }
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    const bool is_ours = t == t_thread || !t->in_use.load(std::memory_order_acquire);
    if (is_ours && t->segment && t->next != t->begin) seal_and_empty(t);
  }
}

void seal_for_exit() {
  Session &g = g_session;
  Thread *self = t_thread;
  Locked lock(g_wiped.sealing);
  {
    Locked table(g_wiped.table);
    if (are_named() && leave_to_sealer()) return;
    seal_handed();
    seal_unnamed_of_others();
    // Before another thread may hand over what nobody would take back.
    g.sealed_for_exit = true;
  }
  for (Thread *t = g.threads; t; t = t->next_thread) {
    // The launcher seals the segments that other threads still write to, and those whose records can't be written here:
    // the process may have given up the right to (setuid), or be out of descriptors.
    if ((t != self && t->in_use.load(std::memory_order_acquire)) || !t->segment) continue;
    if (!seal_and_empty(t, true)) continue;
    if (is_done(t->segment)) remove_segment_file(t->segment);
  }
}

MemorySegment::MemorySegment(Thread *thread) : thread_(thread) {
  Session &g = g_session;
  if (thread->segment || (g.first_segment && !g.sealed_for_exit)) return;
  segment_ = static_cast<SegmentHeader *>(own_memory::pages(segment_bytes(kSegmentSlots)));
  if (!segment_) return;
  {
    Locked lock(g_wiped.table);
    write_segment_header(segment_, g.first_segment ? g.segment_count++ : 0, kSegmentSlots, thread->tid);
  }
  auto &lost = segment_->lost[static_cast<int>(Loss::kNoJournal)];
  lost.store(g.losses_without_segment.exchange(0), std::memory_order_relaxed);
  attach_segment(thread, segment_, 0);
}

MemorySegment::~MemorySegment() {
  if (!segment_) return;
  Session &g = g_session;
  {
    Locked lock(g_wiped.sealing);
    g.unrecorded = seal_and_empty(thread_);
  }
  // What could not be written: the next attempt may.
  uint64_t lost = segment_->lost[static_cast<int>(Loss::kNoJournal)].load(std::memory_order_relaxed);
  g.losses_without_segment.fetch_add(lost, std::memory_order_relaxed);
  thread_->segment = nullptr;
  forget_waits(thread_);
  thread_->begin = thread_->next = thread_->limit = thread_->captured_to = nullptr;
  own_memory::release(segment_, segment_bytes(kSegmentSlots));
}

void report_losses() {
  Thread *t = g_session.unrecorded ? enter() : nullptr;
  if (!t || g_session.losses_without_segment.load() == 0) return;
  sys::SignalsBlocked signals;
  MemorySegment memory(t);
}

// The process's end has sealed the first segment and may have removed its file: what is counted there later is lost
// with the process, so it is written now.
static void report_late_loss(Thread *t, std::atomic<uint64_t> &count) {
  uint64_t n = count.load();
  while (n && !count.compare_exchange_weak(n, n - 1)) {
  }
  if (n == 0) return;  // it was in time
  g_session.losses_without_segment.fetch_add(1);
  sys::SignalsBlocked signals;
  MemorySegment memory(t);
}

void count_loss(Thread *t, Loss cause, uint64_t number) {
  Session &g = g_session;
  SegmentHeader *s = t && t->segment ? t->segment : g.first_segment;
  if (!s && g.ancestor && !g.unrecorded) {
    s = g.ancestor;
    s->homeless.store(1, std::memory_order_relaxed);
  }
  auto &count = s ? s->lost[static_cast<int>(cause)] : g.losses_without_segment;
  // Before the flag is read, as the end of the process sets the flag before it reads the count (is_done): one of the
  // two sees the other.
  count.fetch_add(number, std::memory_order_seq_cst);
  if (t && !t->segment && s && cause == Loss::kNoJournal && g.sealed_for_exit.load(std::memory_order_seq_cst)) {
    report_late_loss(t, count);
  }
}

}  // namespace tailrace
