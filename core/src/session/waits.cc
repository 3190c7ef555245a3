// See session/waits.h.
#include "session/waits.h"

#include <string.h>

namespace tailrace {
namespace {

// By row of hooks.def, and futex(2), which is an event.
static_assert(static_cast<size_t>(Fn::f_semtimedop) - static_cast<size_t>(Fn::f_sleep) + 2 == kWaitFunctions,
              "the rows of hooks/waits.cc");
constexpr size_t place_of(Fn fn) {
  return fn == Fn::kFutex ? kWaitFunctions - 1 : static_cast<size_t>(fn) - static_cast<size_t>(Fn::f_sleep);
}

// Calls of one slot, so that a reader's 32 bits have room for them.
constexpr uint32_t kMostCalls = 1U << 30;
// Of calls without a clock one of so many reads it, for the end of their line.
constexpr uint32_t kClockEach = 64;

bool is_full(const Slot &slot) { return blocked_calls(slot.file2) >= kMostCalls; }

// Adds a call that ended at `now` (0: not known) after `ticks`.
void add(Slot &slot, uint64_t ticks, uint64_t now) {
  ++slot.file2;  // blocked_calls()
  slot.offset += static_cast<int64_t>(ticks);
  if (now) slot.t1 = now;
}

struct Wait {
  Fn fn;
  uint64_t t0, t1, file, timeout_ns;
  uint32_t number;

  bool is_like(const Slot &s) const {
    return s.file == file && s.count == timeout_ns && blocked_number(s.file2) == number;
  }
};

// Whether the wait follows those of the slot closely.
bool goes_on(const Slot &s, const Wait &w, uint32_t context) {
  const uint64_t unit = g_session.shortest_wait_ticks;
  return s.context == context && w.t0 >= s.t1 && w.t0 - s.t1 <= kLongestPause * unit &&
         w.t1 - s.t0 <= kLongestSpan * unit && !is_full(s);
}

// Whether the slot's line began so long before that another one may take its place.
bool is_over(const Slot &s, const Wait &w) { return w.t1 - s.t0 >= kLongestPause * g_session.shortest_wait_ticks; }

void join(Slot &s, const Wait &w) {
  if (s.file != w.file) s.file = 0;
  if (s.count != w.timeout_ns) s.count = kNoTimeout;
  if (blocked_number(s.file2) != w.number) s.file2 = blocked_word(blocked_calls(s.file2), 0, false);
  add(s, w.t1 - w.t0, w.t1);
}

// The slot that the wait is added to, or else the place for its own. Of each function there are two lines at a time:
// that of one kind of waits (of a file, with a timeout), and one for all others that are between them, which loses what
// they differ in. The first line may be of another kind each kLongestPause.
Slot **place_for(Thread *t, const Wait &w, uint32_t context, bool &joins) {
  Slot *(&slots)[2] = t->waits[place_of(w.fn)];
  joins = true;
  if (slots[0] && w.is_like(*slots[0]) && goes_on(*slots[0], w, context)) return &slots[0];
  const bool is_first = !slots[0] || w.is_like(*slots[0]) || is_over(*slots[0], w);
  if (!is_first && slots[1] && goes_on(*slots[1], w, context)) return &slots[1];
  joins = false;
  return &slots[is_first ? 0 : 1];
}

}  // namespace

void forget_waits(Thread *t) {
  memset(t->waits, 0, sizeof t->waits);
  memset(t->at_once, 0, sizeof t->at_once);
}

void count_at_once(Thread *t, Fn fn, uint64_t ticks, uint64_t now) {
  Slot *slot = t->at_once[place_of(fn)];
  if (__builtin_expect(!slot || slot->context != current_context()->id || is_full(*slot), 0)) {
    return count_at_once_slowly(fn, ticks, now);
  }
  if (__builtin_expect(!now && blocked_calls(slot->file2) % kClockEach == 0, 0)) now = now_ticks();
  add(*slot, ticks, now);
}

void count_at_once_slowly(Fn fn, uint64_t ticks, uint64_t now) {
  Thread *t = enter();
  // At the end of the process each record is a block.
  if (!t || !t->segment || g_session.sealed_for_exit.load(std::memory_order_relaxed)) return;
  if (!now) now = now_ticks();
  Event e;
  e.fn = fn;
  e.file2 = blocked_word(1, 0, true);
  e.offset = static_cast<int64_t>(ticks);
  e.count = kNoTimeout;
  Slot *slot = record_amendable(t, e, now - ticks, now, nullptr);
  t->at_once[place_of(fn)] = slot;
}

void record_long_wait(Fn fn, uint64_t t0, uint64_t t1, int64_t result, const WaitedFor &what) {
  Thread *t = enter();
  if (!t) return;
  OpenFile *file = what.fd >= 0 ? file_of(what.fd) : nullptr;
  const Wait w{fn, t0, t1, file ? file->hash.load(std::memory_order_relaxed) : 0, what.timeout_ns, what.number};
  const uint64_t ticks = t1 - t0;
  Slot **place = nullptr;
  if (ticks < kOwnLine * g_session.shortest_wait_ticks) {
    bool joins;
    place = place_for(t, w, current_context()->id, joins);
    if (joins) return join(**place, w);
  }
  Event e{fn, w.file, blocked_word(1, w.number, false), static_cast<int64_t>(ticks), w.timeout_ns, result};
  Slot *slot = record_amendable(t, e, t0, t1, file);
  if (place) *place = slot;
}

}  // namespace tailrace
