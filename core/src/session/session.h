// The session: all state by which one process is traced, and a thread's entry to recording.
//
//   process ── g_wiped: WipedOnFork                    a page that fork(2) zeroes: `alive` and the locks
//           ── g_session: Session
//                │
//                ├─ root ───────────► Context          the process's own tags; never freed (session/root_context.h)
//                ├─ threads ────────► Thread ─► Thread ─► ...        never freed; an ended thread's is used again
//                │                      │         │
//                │                      │ segment │ segment          next, limit: where the next record goes
//                │                      ▼         ▼
//                ├─ first_segment ► SegmentHeader + slots ...        mapped files (format/journal.h):
//                │                      │                              <journal_stem>.0.tj, .1.tj, ...
//                ├─ ledger ─────────────┘ in the first segment, own_ledger before there is one
//                ├─ ancestor ───────► SegmentHeader    of a process that forked this one: counts losses only
//                ├─ reserve[] ──────► SegmentHeader    made before rights are given up (session/reserve.h)
//                ├─ spares[] ───────► SegmentHeader    handed over to the node's sealer (session/hand_over.h)
//                └─ scratch, seal_stack                memory of the sealer, for all threads
//
//   t_thread: Thread of this thread, null before its first event    t_context: its Context, null for the root
//
// How a record is made:
//
//   hook ─► enter() ─► Thread ─► session/record.h writes slots ─► segment full or old: make_room(), pass_on()
//                                                                                │
//        handed over to the node's sealer (session/hand_over.h) ◄── or, by us: ──┴─► trace file: one block (format/seal.h)
//
// What starts a process does to it:
//
//   fork     g_wiped is zero and no segment is mapped in the child. enter_slowly() finds `alive` unset and begins a
//            process of its own: new name, new ledger, new journal at its first event. libc's fork holds `sealing` and
//            `table` meanwhile (before_fork), so that tables and arena are whole in the child.
//   vfork    The child runs in its parent's memory: vfork_state() says so, t_thread is put aside, nothing changed. What
//            it moves is recorded beside its parent's records (session/memory_sharers.h), as that of other tasks with
//            this memory.
//   exec     The image is replaced, the process stays: TAILRACE_PROCESS names the journal's segments, and the next
//            image adopts them and appends to them (write_process_identity, adopt_segments).
//
// Locks, in the order in which a thread that takes more than one takes them:
//
//   functions  what is known of the program's functions (layers/native_functions.cc)
//   sealing    scratch, seal_stack, the trace file, a segment while it is emptied
//   table      contexts, memory for file slots, the list of threads, segments' numbers, the reserve
//   reaping    the readings around a wait (session/child_account.h); no other lock is taken under it
//
// Guarantees:
// - enter() costs a thread-local load and a flag once the thread records.
// - A child of any kind of fork finds out at its first event that it is one, since the flag is on the wiped page.
// - No child writes into its parent's segments: they are mapped MADV_DONTFORK. Exceptions are the first one's header,
//   where a child without a journal counts its losses, and segments in reserve (session/reserve.h).
// - A lock is held only with signals blocked, so a signal handler never waits for a lock of its own thread.
// - A process that is killed loses no finished record: segments are files, which the launcher seals.
// - Nothing here fails the program: without memory or journal, events are counted as lost.
//
// Look next at session/record.h (what hooks call), session/segment.h (segments), format/journal.h (their layout).
#pragma once

#include "base/lock.h"
#include "format/choices.h"
#include "format/journal.h"
#include "format/seal.h"
#include "format/settings.h"
#include "session/context.h"

namespace tailrace {

// Sizes of the direct-mapped caches of names and contexts that the current epoch contains: a miss only writes one again.
constexpr size_t kNameCache = 1024;
constexpr size_t kContextCache = 32;
// The rows of hooks/waits.cc, and futex(2).
constexpr size_t kWaitFunctions = 39;

struct Thread {
  Slot *next;
  Slot *limit;
  Slot *begin;
  SegmentHeader *segment;
  uint64_t deadline_ticks;  // the first event after it seals the segment
  uint32_t epoch;
  uint32_t tid;
  uint64_t names[kNameCache];
  uint32_t contexts[kContextCache];
  Thread *next_thread;  // in the list of all of this process
  char *paths;          // memory of PathBuffer
  uint32_t paths_taken;
  std::atomic<uint32_t> in_use;
  uint32_t retry_events;  // events until the next attempt to make a segment
  // The bytes in this thread's records up to `captured_to`, those that the kernel's account has (session/ledger.h),
  // while it has accounts that need them.
  Slot *captured_to;
  int64_t captured[2];
  uint32_t accounts;
  uint32_t regions;          // the number of the last one (session/region.h)
  uint32_t dropped_regions;  // slots of those that left none
  // Of each group of so many calls one has a stack (session/stacks.h): the calls of this group until now, which one that
  // is, and the state of the generator.
  uint64_t group_calls, group_choice, group_random;
  struct StackRoom *stack_room;
  void *spare_ranges;     // of annotations (layers/annotations.cc)
  uint64_t beside_ticks;  // the begin of a call that is recorded beside (session/memory_sharers.h)
  // Of each function that waits: the slots that its next call may be added to (session/waits.h).
  Slot *at_once[kWaitFunctions];
  Slot *waits[kWaitFunctions][2];
  uint64_t handle;       // pthread_self(3)
  uint64_t began_ticks;  // the thread, or its first record where it was not seen to begin
};

// On pages of its own that fork zeroes, of this library: what is read when tracing has ended (stop_tracing) must not lie in
// memory that the program may take (session/give_way.h).
#if defined(__x86_64__)
constexpr size_t kLargestPage = 4096;
#else
constexpr size_t kLargestPage = 65536;
#endif
struct alignas(kLargestPage) WipedOnFork {
  std::atomic<uint32_t> alive{0};
  bool by_libc = false;  // libc's fork: the child began in after_fork_in_child()
  // What each guards, and their order: above.
  Lock sealing;
  Lock table;
  Lock reaping;
  Lock functions;
};

// What the managers' variables gave, and those of the root context's tags that come from it. Never changed or freed.
struct ManagedTags {
  string_view found, used;
};

enum class State : uint32_t { kNew, kStarting, kOff, kOn };

constexpr size_t kReserveSegments = 8;  // 2 MiB, in a process that gives up rights (session/reserve.h)

// A segment that no thread has, since it was handed over to the node's sealer (session/hand_over.h).
struct Spare {
  SegmentHeader *segment;
  const Thread *last;
};
constexpr uint32_t kSparesOfAll = 2, kSparesOfAThread = 2, kMostSpares = 32;
struct SealerBoard;

struct Session {
  std::atomic<State> state;
  StartEnvironment environment;
  ClockKind clock_kind;
  ClockSample start;
  uint64_t start_realtime_ns;
  uint64_t reference_rate_q32;
  uint64_t block_age_ticks;
  uint64_t shortest_wait_ticks;
  Detail detail;
  NameHasher hasher;  // off, unless TAILRACE_REDACT=paths
  int pid;
  unsigned journal_uid;  // the user whose directory has the journals, as numbered outside of any user namespace
  std::atomic<bool> sealed_for_exit;
  bool start_recorded;
  bool host_described;            // in this image or the one that forked it; not by us, where another process was first
  std::atomic<uint32_t> filters;  // seccomp filters in force, none of which harms the core's system calls
  Ledger *ledger;                 // in the first segment; own_ledger before there is one
  Ledger own_ledger;
  // The process's own context; another one once a manager's variable has changed (managers.h).
  std::atomic<Context *> root;
  std::atomic<const ManagedTags *> managed;  // set before the root
  Thread *threads;
  int journal_place;                    // format/journal_place.h
  int journal_error;                    // errno of the last attempt to make a first segment
  bool has_renamed_journals;            // earlier segments are another user's, in his directory
  bool unrecorded;                      // it failed, and the trace file says so
  std::atomic<uint32_t> segment_count;  // changed under the table lock; an execve reads it without
  uint32_t kept_segments;               // full ones that are left to the launcher
  SegmentHeader *first_segment;
  SegmentHeader *ancestor;  // the header page of an ancestor's first segment: its loss counters
  SegmentHeader *reserve[kReserveSegments];
  Spare spares[kMostSpares];
  uint32_t spare_count;
  SealerBoard *board;  // of the node's sealer, mapped; may be stale
  uint64_t pid_namespace;
  std::atomic<uint64_t> losses_without_segment;  // of before the first segment
  SealScratch *scratch;
  char *seal_stack;         // kPrivateStackBytes
  uint64_t unaccounted_ns;  // processor time of sealing that no block has (SealOptions)
  char host[256];
  char journal_stem[2048];  // <dir>/<host>-<pid>-<start>
  char trace_path[3072];
  char process_members[12 * 1024];  // args of the start event
  size_t process_members_bytes;
  // Ends the environment exposures of all threads (spawn/environment_exposure.h): in a forked child, and where the memory
  // that they are in goes. Null before the first.
  void (*end_exposures)();
};

extern Session g_session;
extern WipedOnFork g_wiped;
extern __thread Thread *t_thread;
extern __thread Context *t_context;
// The number of the region that the thread is in; 0: none (session/region.h).
extern __thread uint64_t t_region;
// When the thread began; 0: it was not seen to.
extern __thread uint64_t t_thread_began;

// What a task and its vfork child, which runs in its memory, tell each other.
struct VforkState {
  uint32_t depth;  // nonzero in the child: 1 in a child, 2 in a child's child, and so on
  // The depth of the first that has set a seccomp filter on itself, 0: none. What it starts is untraced.
  uint32_t confined;
  int child;             // its tid, while other tasks have this thread-local memory
  uint32_t paths_taken;  // by `before`, then
  Thread *before;        // where the task records, which stands still
  uint64_t began_ticks;  // of the call
};
struct SharingTask;
// Tasks with this thread-local memory (session/memory_sharers.h), each of which has a state of its own. Null: the thread's
// is in t_vfork_state.
extern __thread SharingTask *t_sharers;
extern __thread VforkState t_vfork_state;
VforkState &vfork_state_of_sharer();
inline VforkState &vfork_state() {
  return __builtin_expect(t_sharers != nullptr, 0) ? vfork_state_of_sharer() : t_vfork_state;
}
inline bool is_vfork_child() { return vfork_state().depth != 0; }
// In the parent of a vfork child that has executed a program or ended: releases the pages that it has not given back.
void give_back_childs_pages();
// Pages that a vfork child takes from its parent's memory, or any other caller from its own; null without memory. A child
// that executes a program has no time to give them back.
void *take_pages_to_execute(size_t bytes);
void give_back_pages(void *pages, size_t bytes);
// Nonzero once the thread has given up a right that recording needs (hooks/seccomp.h).
extern __thread uint32_t t_confined;
// The stream whose lock this thread holds around a call (hooks/stream.h).
extern __thread void *t_held_stream;

// The frame of the innermost call of a function that is a region (session/function_calls.h): what runs with its caller's
// frame above it is outside of that call.
constexpr uintptr_t kNoFrame = UINTPTR_MAX;
extern __thread uintptr_t t_innermost_frame;
void leave_functions(uintptr_t frame);

// Whether this process is traced, as far as it is known without entering: the child of a fork is, too.
inline bool is_recording() { return g_session.state.load(std::memory_order_relaxed) == State::kOn; }

Thread *enter_slowly();

// The calling thread's Thread, or null when it records nothing now.
inline Thread *enter() {
  Thread *t = t_thread;
  if (__builtin_expect(t != nullptr && g_wiped.alive.load(std::memory_order_relaxed), 1)) return t;
  return enter_slowly();
}

// The fhash of a file in this run.
inline uint64_t recorded_hash(string_view path, const FileIdentity &identity) {
  const uint64_t hash = file_hash(path, identity);
  return __builtin_expect(g_session.hasher.is_on(), 0) ? g_session.hasher.file_hash(hash) : hash;
}

inline uint64_t now_ticks() { return read_ticks(g_session.clock_kind); }

// The tags under which the calling thread records.
inline Context *current_context() {
  Context *c = t_context;
  if (__builtin_expect(c != nullptr && !c->finished.load(std::memory_order_relaxed), 1)) return c;
  return g_session.root.load(std::memory_order_acquire);
}

// Whether the program's file gives it rights that its caller has not (set-user-ID, capabilities): it is never traced.
bool has_more_rights_than_its_caller();
// Starts the session if the environment has TAILRACE_RUN and its state is `from`. argv may be null: it is found.
void start_session(char **argv, State from = State::kNew);

// A Thread without a segment. Call with the table lock held, or before any thread runs.
Thread *new_thread();
// A Thread for a task that is about to begin, with a segment where one can be had. Call with the table lock held.
Thread *take_thread();
// Makes room for `slots` in the thread's segment, by more pages or by sealing and emptying it. False when neither is
// possible.
bool make_room(Thread *t, uint32_t slots);
void seal_thread(Thread *t);
// The same, by the node's sealer if there is one.
void pass_on(Thread *t);
// Seals the segments of this thread and of ended threads, at the end of the process, or leaves them to the node's sealer.
void seal_for_exit();
// Calls release_thread when the calling thread ends. May allocate.
void watch_thread_end();
// The calling thread ends: a later thread uses its Thread and segment.
void release_thread(Thread *t);

void count_loss(Thread *t, Loss cause, uint64_t number = 1);

// Records the start of the process, as the first event of its first thread.
void record_start(Thread *t);

// Ends tracing in this process for good. The launcher seals what its journals contain. Other threads may be in the middle of
// a record.
void stop_tracing();

// Writes TAILRACE_PROCESS: the number of seccomp filters that a program begins under and, for the next image of this
// process (`same`), its identity and segments, so that the image continues the same journal.
void write_process_identity(Writer &out, bool same);

// Takes the locks around fork (pthread_atfork); once a process. The handlers do nothing before the session starts.
void register_fork_handlers();
// The same around a fork that calls no handlers. Signals are blocked in between.
void hold_for_fork();
void let_go_in_parent();
void let_go_in_child();

}  // namespace tailrace
