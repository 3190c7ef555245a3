// Tasks that share this process's memory and are no threads of it: a child of vfork(2) until it executes a program, and
// one of clone(2) with CLONE_VM. For the trace such a task is a thread of this process: what it reads and writes are
// events of this process, with the task's own tid, and what the kernel counts for it is this process's
// (ChildKind::kOurs).
//
//                      memory  descriptors        how it records
//   vfork              ours    a table of its own  beside (record_beside), while its parent's thread stands still
//   CLONE_VM           ours    a table of its own  beside, into a Thread of its own
//   CLONE_VM | FILES   ours    ours                as a thread does, into a Thread of its own
//
// Invariants:
// - A task that records beside takes no lock, makes no room and seals nothing: a signal may end it alone, at any
//   instruction, and its parent goes on with the same memory. What finds no room is a loss, which is counted.
// - It asks the kernel for a descriptor's file each time, and leaves the table of descriptors alone.
// - Such a task's execve and exit are none of this process's.
//
// They have the thread-local memory of the thread that made them, too. What is of one of them alone, as its vfork, is
// in its SharingTask (vfork_state()).
//
// A clone by a raw system call is not seen: its child records as the thread that made it.
#pragma once

#include <sys/types.h>

#include "base/sys.h"
#include "session/session.h"

namespace tailrace {

// A child of clone(2) that shares the memory, or the thread that made one. Of a thread that keeps its thread-local
// memory for itself there is none. While t_sharers has some, the thread's own Thread is among them, and not in
// t_thread.
struct SharingTask {
  std::atomic<int> tid;
  bool shares_files;
  Thread *thread;
  pid_t pid;  // of a child, known to its maker
  VforkState vforks;
  SharingTask *next;
  int (*function)(void *);
  void *argument;
};

// Of the calling task in t_sharers. Null: it records beside, or nothing.
Thread *thread_of_sharer();
// Where a task records that does so beside; null: it does not, or nothing is recorded.
Thread *thread_beside();

// Whether the calling task is none of this process's threads.
inline bool is_other_task() {
  return is_vfork_child() || (__builtin_expect(t_sharers != nullptr, 0) && sys::getpid() != g_session.pid);
}
// Such a task in which the core may make system calls.
inline bool is_traced_other_task() {
  return is_other_task() && !vfork_state().confined && !t_confined &&
         g_session.state.load(std::memory_order_acquire) == State::kOn;
}

// Around vfork. What belongs to the caller and has to survive the child, in two registers.
struct BeforeVfork {
  VforkState *state;
  uint64_t depth;
};
BeforeVfork before_vfork();
void enter_vfork_child(BeforeVfork before);
void after_vfork(BeforeVfork before, pid_t child);

// Before a clone whose child shares this memory and runs beside its maker; null without memory. `own_tls`: it gets
// thread-local memory of its own.
SharingTask *expect_sharer(int (*function)(void *), void *argument, bool shares_files, bool own_tls);
// In the child, first.
void enter_sharer(SharingTask *task, bool own_tls);
// In the maker, after the call; child < 0: it failed.
void keep_sharer(SharingTask *task, pid_t child);

// What is known of a child that this process has started.
enum class ChildKind : uint32_t {
  kUnknown,
  kGiven = kWithLibrary,       // it executes a program with the library
  kWithout = kWithoutLibrary,  // it executes a program without
  kForked,
  kOurs,  // it shares this process's memory
};
// `own_bytes`: what the core has read in it before its program began.
struct StartedChild {
  ChildKind kind = ChildKind::kUnknown;
  int64_t own_bytes = 0;
};
void note_child(pid_t pid, ChildKind kind);
bool is_child_ours(pid_t pid);
// At its end.
StartedChild take_child(pid_t pid);
// Bytes that the core has read in the calling task, which is none of this process's threads.
void count_own_beside(int64_t read);

}  // namespace tailrace
