// See session/reserve.h.
#include "session/reserve.h"

#include <string.h>

#include "base/sys.h"
#include "session/hand_over.h"
#include "session/segment.h"

namespace tailrace {

void write_segment_header(SegmentHeader *s, uint32_t index, uint32_t slots, uint32_t tid) {
  const Session &g = g_session;
  ClockSample now = sample_clock(g.clock_kind);
  s->magic.store(0, std::memory_order_release);
  s->version = kJournalVersion;
  s->slots = kSegmentSlots;
  s->allocated_slots.store(slots, std::memory_order_relaxed);
  s->segment = index;
  s->pid = g.pid;
  s->pid_namespace = g.pid_namespace;
  s->start_realtime_ns = g.start_realtime_ns;
  s->start_monotonic_ns = g.start.monotonic_ns;
  s->reference_rate_q32 = g.reference_rate_q32;
  s->clock_kind = static_cast<uint32_t>(g.clock_kind);
  s->detail = static_cast<uint32_t>(g.detail.kind);
  s->detail_budget = g.detail.budget_bytes;
  s->from_ticks = now.ticks;
  s->from_ns = now.monotonic_ns;
  s->rate_before_q32 = g.reference_rate_q32;
  s->first_tid = tid;
  s->epoch.store(1, std::memory_order_relaxed);
  s->blocks.store(0, std::memory_order_relaxed);
  s->host_bytes = static_cast<uint32_t>(strlen(g.host));
  memcpy(s->host, g.host, s->host_bytes);
  s->path_bytes = static_cast<uint32_t>(strlen(g.trace_path));
  memcpy(s->trace_path, g.trace_path, s->path_bytes + 1);
  s->magic.store(kJournalMagic, std::memory_order_release);
}

namespace {

void register_segment(SegmentHeader *s) {
  Session &g = g_session;
  s->lost[static_cast<int>(Loss::kNoJournal)].fetch_add(g.losses_without_segment.exchange(0),
                                                        std::memory_order_relaxed);
  if (!g.first_segment) g.first_segment = s;
}

// A file of the next number that is free, which segment_count then is. Call with the table lock held.
SegmentHeader *make_next_segment_file(uint32_t slots, Sharing sharing) {
  uint32_t number = g_session.segment_count.load(std::memory_order_relaxed);
  SegmentHeader *s = make_segment_file(number, slots, sharing);
  g_session.segment_count.store(number, std::memory_order_relaxed);
  return s;
}

// Call with the table lock held.
void fill_reserve() {
  Session &g = g_session;
  for (auto &place : g.reserve) {
    if (place && place->holding.load(std::memory_order_relaxed) == kReserve) continue;
    place = nullptr;
    SegmentHeader *s = make_next_segment_file(kSegmentSlots, Sharing::kWithChildren);
    if (!s) return;
    s->holding.store(kReserve, std::memory_order_relaxed);
    write_segment_header(s, g.segment_count++, kSegmentSlots, 0);
    place = s;
  }
}

}  // namespace

SegmentHeader *make_segment(uint32_t slots, uint32_t tid) {
  Session &g = g_session;
  SegmentHeader *s =
      make_next_segment_file(slots, g.first_segment ? Sharing::kThisProcess : Sharing::kHeaderWithChildren);
  if (!s) return nullptr;
#ifdef MADV_POPULATE_WRITE
  // One call instead of a fault per page; older kernels refuse, and the pages fault.
  sys::madvise(s, segment_bytes(slots), MADV_POPULATE_WRITE);
#endif
  write_segment_header(s, g.segment_count++, slots, tid);
  register_segment(s);
  return s;
}

SegmentHeader *take_reserve(uint32_t tid, size_t leaving) {
  Session &g = g_session;
  for (size_t i = leaving; i < kReserveSegments; ++i) {
    SegmentHeader *&place = g.reserve[i];
    SegmentHeader *s = place;
    place = nullptr;
    uint32_t expected = kReserve;
    if (!s || !s->holding.compare_exchange_strong(expected, kHeld)) continue;
    share_segment(s, g.first_segment ? Sharing::kThisProcess : Sharing::kHeaderWithChildren);
    // In the process that made it the index is that of the file name.
    bool own = s->pid == g.pid && s->start_realtime_ns == g.start_realtime_ns;
    write_segment_header(s, own ? s->segment : g.segment_count++, kSegmentSlots, tid);
    s->from_reserve.store(1, std::memory_order_relaxed);
    register_segment(s);
    return s;
  }
  return nullptr;
}

void make_reserve(unsigned uid) {
  Thread *self = enter();
  bool changes = uid != kSameUser && g_session.state.load(std::memory_order_acquire) == State::kOn && !t_confined &&
                 uid != sys::geteuid();
  // In a vfork child too, since its next program will need it.
  if (changes) announce_user(uid);
  if (!self) return;
  sys::SignalsBlocked signals;
  if (self->segment && self->next - self->begin > kSegmentSlots / 2) seal_thread(self);
  Locked lock(g_wiped.table);
  find_sealer();
  // A thread notices the new size when it reaches the end of its segment.
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    if (t->segment) extend_segment_file(t->segment);
  }
  fill_reserve();
}

}  // namespace tailrace
