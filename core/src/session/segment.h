// Segments: the files behind threads' buffers. Made, grown, filled, sealed, emptied, adopted after execve, removed.
#pragma once

#include "session/session.h"

namespace tailrace {

// Gives the thread a new segment, or leaves it without one (counted). Table lock held.
void open_segment(Thread *t);
// Takes over the segments of this process's previous program image; `mine` was the calling thread's. Before any thread
// exists.
bool adopt_segments(uint32_t count, uint32_t mine);
// The thread goes on with a segment that another thread began.
void note_thread(Thread *t);
// The scratch memory of a forked child's parent may have been in use.
void forget_scratch();

// The thread's records would fill 64 KiB of lines or more.
inline bool is_worth_a_block(const Thread *t) { return t->next - t->begin > 240; }

// Moves the end of what is used by `n` slots and returns where they begin. One instruction, so that a signal handler
// that records in between takes slots of its own.
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

// Slots in a row, or null: then the caller counts the loss. The slots are the caller's, but invalid until marked.
inline Slot *reserve(Thread *t, uint32_t n) {
  Slot *slot = take_slots(t, n);
  if (__builtin_expect(slot + n <= t->limit, 1)) return slot;
  return reserve_slowly(t, n);
}

}  // namespace tailrace
