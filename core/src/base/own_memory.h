// The memory that the core maps into the program's address space: pages, and files (journals). All of it comes from
// here.
//
// A program may ask for any address: one that it has just unmapped (loaders, symmetric heaps), one of a list
// (sanitizers, JITs), one that mincore(2) says is free. So the core's pieces lie in one window of addresses, where the
// kernel places nothing by itself: just below the programs that it loads at random addresses (PIE, 2/3 of the address
// space). mmap grows down from the top of the address space, or up from its third, and brk up from behind the program.
// There the window splits no gap that is large, and the sanitizers' shadow memory leaves it to the program.
//
// Invariants:
// - The window is a range of numbers and no mapping. A reservation (PROT_NONE) would count for RLIMIT_AS, would show in
//   mincore(2) and as a gap that is taken, and would have to be given up page by page.
// - A piece is placed where the kernel has nothing yet (MAP_FIXED_NOREPLACE): the kernel decides, whatever the table
// says.
//   So no lock is needed, and signal handlers, vfork children, forked children and a second copy of this code may map.
// - The table says where pieces are. It is never short of one, so who would map over it finds it by next()
// (hooks/map.cc).
// - Where nothing in the window can be had (another layout of the address space, an emulator), a piece is where the
//   kernel puts it, and the table has it too.
//
// Rejected: to prefer what the kernel chooses, which is what the program has unmapped last.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace tailrace::own_memory {

// Zeroed whole pages; null when there are none.
void *pages(size_t bytes);
// A shared mapping of the file's begin, to be read and written; null when there can be none.
void *file(int fd, size_t bytes);
// All that is left of what one of the two has returned. Nothing, where it was given up.
void release(void *at, size_t bytes);

// A forked child will not have these bytes. False when the kernel refuses.
bool keep_from_children(void *at, size_t bytes);
// In a forked child, before any other function here: what it doesn't have is forgotten.
void begin_child();

// What next() can find is within these bounds.
extern std::atomic<uintptr_t> g_low, g_high;

struct Range {
  uintptr_t begin, end;
  bool is_empty() const { return begin == end; }
};

// Whether memory of ours may be in the range: two comparisons, for each call that maps.
inline bool may_be_in(uintptr_t begin, size_t bytes) {
  return begin < g_high.load(std::memory_order_relaxed) && bytes > 0 &&
         begin + (bytes - 1) >= g_low.load(std::memory_order_relaxed);
}
// The part of the range that is the first memory of ours in it; empty: there is none.
Range next(Range range);
// Unmaps what is ours in the range, and around it.
void give_up(Range range);

}  // namespace tailrace::own_memory
