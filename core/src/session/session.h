// The session: what this process's tracing consists of, and a thread's way into it.
//
//   hook -> enter() -> Thread* -> session/record.h writes a slot -> make_room()/seal() when the segment is full
//
// What holds:
// - enter() costs a thread-local load and a flag where all is well. The flag lies on a page that fork(2) wipes, so a
// child of any
//   kind of fork notices at its first event that it is one, and starts a journal of its own.
// - Segments are mapped MADV_DONTFORK: no child can write into its parent's. Excepted are the first one's header, where
// a child without a journal counts what it loses, and segments held in reserve (session/reserve.h).
// - A lock is only held with signals blocked, so a handler never meets one that its own thread holds.
// - In a vfork child (the parent's memory!) t_vfork is set, t_thread is null, and nothing is recorded or changed.
// - Nothing here fails the program: without memory or journal, events are counted as lost.
#pragma once

#include "base/lock.h"
#include "format/journal.h"
#include "format/seal.h"
#include "format/settings.h"
#include "session/context.h"

namespace tailrace {

// Direct-mapped memory of which names the current epoch has: a miss only writes the name again.
constexpr size_t kNameCache = 1024;
constexpr size_t kContextCache = 4;

struct Thread {
  Slot *next;
  Slot *limit;
  Slot *begin;
  SegmentHeader *segment;
  uint64_t deadline_ticks;  // the first event after it seals
  uint32_t epoch;
  uint32_t tid;
  uint64_t names[kNameCache];
  uint32_t contexts[kContextCache];
  Thread *next_thread;  // all of this process
  char *paths;          // PathBuffer's
  uint32_t paths_taken;
  std::atomic<uint32_t> in_use;
  uint32_t retry_events;  // until a segment is tried for again
  // The bytes in this thread's records up to `captured_to`, those that the kernel's account has (session/ledger.h),
  // while it has accounts that need them.
  Slot *captured_to;
  int64_t captured[2];
  uint32_t accounts;
};

// Lies on a page of its own that fork wipes to zero.
struct WipedOnFork {
  std::atomic<uint32_t> alive;
  bool by_libc;  // the fork was libc's, so the child began in after_fork_in_child()
  // Who takes both takes `sealing` first.
  Lock sealing;  // the scratch memory and the trace file
  Lock table;    // contexts, file slots, threads
  Lock reaping;  // session/child_account.h; no other is taken under it
};

enum class State : uint32_t { kNew, kStarting, kOff, kOn };

constexpr size_t kReserveSegments = 8;  // 2 MiB, in a process that has given up rights (session/reserve.h)

struct Session {
  std::atomic<State> state;
  WipedOnFork *wiped;
  StartEnvironment environment;
  ClockKind clock_kind;
  ClockSample start;
  uint64_t start_realtime_ns;
  uint64_t reference_rate_q32;
  uint64_t block_age_ticks;
  int pid;
  unsigned journal_uid;  // whose directory has the journals: the user's number outside of any user namespace
  bool sealed_for_exit;
  bool start_recorded;
  std::atomic<uint32_t> filters;  // seccomp filters that the process is under, none of which harms our calls
  Ledger *ledger;                 // in the first segment, or own_ledger as long as there is none
  Ledger own_ledger;
  Context *root;
  Thread *threads;
  uint32_t segment_count;
  uint32_t kept_segments;  // left full to the launcher
  SegmentHeader *first_segment;
  SegmentHeader *kin;  // the page of the header of an ancestor's first segment: its lost counters
  SegmentHeader *reserve[kReserveSegments];
  uint64_t pid_namespace;
  std::atomic<uint64_t> unhoused_losses;  // before there was any segment to count them in
  SealScratch *scratch;
  char *seal_stack;  // kPrivateStackBytes, used under the sealing lock
  char host[256];
  char journal_stem[2048];  // <dir>/<host>-<pid>-<start>
  char trace_path[3072];
  char process_members[12 * 1024];  // the start event's args
  size_t process_members_bytes;
  // Ends an environment exposure in a forked child (spawn/environment_exposure.h); null before the first exposure.
  void (*end_exposure_in_child)();
};

extern Session g_session;
extern __thread Thread *t_thread;
extern __thread Context *t_context;
// In a vfork child, which runs in this thread's memory: 1, and the thread's own pointer is put aside here meanwhile.
extern __thread uint32_t t_vfork;
// The same in one that has confined itself: what it starts is untraced.
constexpr uint32_t kConfinedVfork = 2;
// The thread has given up the right to what recording needs (hooks/seccomp.h).
extern __thread uint32_t t_confined;
extern __thread Thread *t_thread_before_vfork;
// The stream whose lock this thread holds around a call (hooks/stream.h).
extern __thread void *t_held_stream;

Thread *enter_slowly();

// The calling thread's way to record, or null when it records nothing now.
inline Thread *enter() {
  Thread *t = t_thread;
  if (__builtin_expect(t != nullptr && g_session.wiped->alive.load(std::memory_order_relaxed), 1)) return t;
  return enter_slowly();
}

inline uint64_t now_ticks() { return read_ticks(g_session.clock_kind); }

// The context that the calling thread records under.
inline Context *current_context() {
  Context *c = t_context;
  if (__builtin_expect(c != nullptr && !c->finished.load(std::memory_order_relaxed), 1)) return c;
  return g_session.root;
}

// Starts the session if the environment asks for it. argv may be null: it is found.
void start_session(char **argv);

// A thread's record without a segment yet; table lock held, or before any thread runs.
Thread *new_thread();
// Makes room for `slots` in the thread's segment: more pages, or a sealed and emptied segment. False: there is none to
// be had.
bool make_room(Thread *t, uint32_t slots);
void seal_thread(Thread *t);
// Everything that is this thread's or nobody's; for the end of the process.
void seal_for_exit();
// The calling thread ends: its segment is for the next one.
void release_thread(Thread *t);

void count_loss(Thread *t, Loss cause);

// Ends tracing in this process for good; what is in its journals is the launcher's to seal.
void leave_off();

// Writes TAILRACE_PROCESS: the filters that a process begins under, and for the next image of this one (`same`) its
// identity, so that it goes on with the same journal.
void write_process_identity(Writer &out, bool same);

// For fork: hold the table still, and let go in the parent and in the child.
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace tailrace
