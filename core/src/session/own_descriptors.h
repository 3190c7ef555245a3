// Work with descriptors in a program that uses them up, or closes those that it did not open: daemons, and what starts
// programs, close all that are open. Another thread may close one of ours so, the program may get its number, and we
// would write to the program's file, read from it, or close it.
//
// Invariants:
// - A process without other threads uses its own table: nobody closes anything meanwhile.
// - With others, what writes (journals, blocks) has a table of its own always. To look into a file of /proc takes a
// tenth of
//   what that costs; so it has one from the time on when a thread was seen to close what was not open.
//
// Rejected: descriptors of high numbers, which are closed as well; a copy of the table, whose end would write out all
// of the program's files on NFS and FUSE.
//
// Nothing keeps a descriptor open, so the program's table is the one that it has untraced, and a daemon that closes
// every descriptor closes none of ours. The price is one open a block.
#pragma once

#include <stdint.h>

#include <atomic>
#include <type_traits>

namespace tailrace {

// The threads that this process has made; a forked child begins with none.
extern std::atomic<uint32_t> g_threads_made;

// Calls function(argument): in a table of our own where there are other threads, or when it leaves -EMFILE or -EBADF in
// `status`. Signals must be blocked.
void with_descriptor(void (*function)(void *), void *argument, const int &status);

// A thread has closed a descriptor that was not open, or all of a range.
void note_sweep();
// Whether the caller is in a table of our own.
bool is_in_own_table();

// While one lives, its thread looks in the program's table: it holds what a look apart waits for.
class LooksHere {
 public:
  LooksHere();
  ~LooksHere();
  LooksHere(const LooksHere &) = delete;
  LooksHere &operator=(const LooksHere &) = delete;
};

bool must_look_apart();
void look_apart(void (*look)(void *), void *argument);

// Calls look(), which opens and closes a descriptor and only reads.
template <class Look>
void with_own_look(Look &&look) {
  if (__builtin_expect(!must_look_apart(), 1)) return look();
  using Looks = std::remove_reference_t<Look>;
  look_apart([](void *raw) { (*static_cast<Looks *>(raw))(); }, &look);
}

}  // namespace tailrace
