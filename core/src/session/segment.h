// Segments, the mapped files that threads write records to: how one is opened, filled, sealed, emptied and adopted
// after execve. session/segment_file.h has the files.
#pragma once

#include "session/session.h"

namespace tailrace {

// Gives the thread a new segment. Without one the thread's events are counted as lost. Call with the table lock held.
void open_segment(Thread *t);
// Takes over the segments of this process's previous program image, of which `mine` was the calling thread's. To be
// called before any Thread exists.
bool adopt_segments(uint32_t count, uint32_t mine);
// Records that the thread continues a segment that another thread began.
void note_thread(Thread *t);
// In a forked child: frees the sealer's memory, which the parent may have been using.
void forget_scratch();

// For the scope, gives a thread whose process could make no journal a segment in memory, and writes its records, with
// the number of losses so far, to the trace file at the end. So the run knows of the process. (To record everything so
// was rejected: what is not yet written would be lost in silence by a kill.) Not while the thread holds a lock of the
// session's; signals blocked.
class MemorySegment {
 public:
  explicit MemorySegment(Thread *thread);
  ~MemorySegment();
  MemorySegment(const MemorySegment &) = delete;
  MemorySegment &operator=(const MemorySegment &) = delete;

 private:
  Thread *thread_;
  SegmentHeader *segment_ = nullptr;
};

// Writes the number of losses of a process without a journal to the trace file, before another program replaces it.
void report_losses();

// Before execve: where files of this process's segments have lost their names, so that its next image can't adopt them,
// seals what they have.
void seal_unnamed();

// Whether the thread's records would fill 64 KiB of lines or more.
inline bool is_worth_a_block(const Thread *t) { return t->next - t->begin > 240; }

// Whether the thread's oldest record is older than a tenth of the age at which its next one would seal them all.
inline bool is_due_for_sealing(const Thread *t) {
  return t->segment && now_ticks() - t->segment->from_ticks > g_session.block_age_ticks / 10;
}

// Seals the records of threads that have ended. They would otherwise wait for a new thread, or for the process's end.
void seal_idle_threads();

// Takes `n` slots and returns the first. One instruction, so that a signal handler that records in between gets slots
// of its own.
inline Slot *take_slots(Thread *t, uint32_t n) {
  auto bytes = static_cast<uint64_t>(n) * sizeof(Slot);
#if defined(__x86_64__)
  __asm__ volatile("xaddq %0, %1" : "+r"(bytes), "+m"(t->next) : : "memory", "cc");
  return reinterpret_cast<Slot *>(bytes);
#else
  return reinterpret_cast<Slot *>(__atomic_fetch_add(reinterpret_cast<uint64_t *>(&t->next), bytes, __ATOMIC_RELAXED));
#endif
}

Slot *reserve_slowly(Thread *t, uint32_t n);

// Returns `n` consecutive slots, which are invalid until they are marked, or null: then the caller counts the loss.
inline Slot *reserve(Thread *t, uint32_t n) {
  Slot *slot = take_slots(t, n);
  if (__builtin_expect(slot + n <= t->limit, 1)) return slot;
  return reserve_slowly(t, n);
}

}  // namespace tailrace
