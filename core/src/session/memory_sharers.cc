// See session/memory_sharers.h.
#include "session/memory_sharers.h"

#include <errno.h>

#include <new>

#include "base/arena.h"
#include "session/ledger.h"
#include "session/segment.h"

namespace tailrace {

__thread SharingTask *t_sharers = nullptr;

namespace {

// Room for a name, a context, and some events of a task that can make none.
constexpr uint32_t kRoomBeside = 192;

// Children by pid, direct-mapped: one that another displaces is not known.
struct Started {
  std::atomic<uint64_t> who;  // pid << 8 | kind
  std::atomic<int64_t> own_bytes;
};
constexpr size_t kStarted = 256;
Started g_started[kStarted];

Started &place_of(pid_t pid) { return g_started[static_cast<size_t>(pid) % kStarted]; }

constexpr uint64_t word_of(pid_t pid, ChildKind kind) {
  return static_cast<uint64_t>(static_cast<uint32_t>(pid)) << 8 | static_cast<uint32_t>(kind);
}

bool is_of(uint64_t who, pid_t pid) { return who != 0 && who >> 8 == static_cast<uint32_t>(pid); }

SharingTask *calling_sharer() {
  const int tid = sys::gettid();
  for (SharingTask *task = t_sharers; task; task = task->next) {
    if (task->tid.load(std::memory_order_acquire) == tid) return task;
  }
  return nullptr;
}

// Table lock held.
SharingTask *make_task(Thread *thread, bool shares_files) {
  void *memory = arena_allocate(sizeof(SharingTask));
  if (!memory) return nullptr;
  auto *task = new (memory) SharingTask{};
  task->thread = thread;
  task->shares_files = shares_files;
  return task;
}

void remove_sharer(SharingTask *gone) {
  for (SharingTask **at = &t_sharers; *at; at = &(*at)->next) {
    if (*at != gone) continue;
    *at = gone->next;
    gone->thread->in_use.store(0, std::memory_order_release);
    break;
  }
  // The maker alone has its thread-local memory again.
  if (!t_sharers || t_sharers->next || t_sharers->tid.load() != sys::gettid()) return;
  t_thread = t_sharers->thread;
  t_sharers = nullptr;
}

}  // namespace

Thread *thread_of_sharer() {
  SharingTask *task = calling_sharer();
  if (!task) return nullptr;
  if (task->shares_files) return task->thread;
  task->thread->beside_ticks = now_ticks();
  return nullptr;
}

VforkState &vfork_state_of_sharer() {
  const int tid = sys::gettid();
  for (SharingTask *task = t_sharers; task; task = task->next) {
    if (task->tid.load(std::memory_order_acquire) == tid || task->vforks.child == tid) return task->vforks;
  }
  return t_vfork_state;
}

Thread *thread_beside() {
  if (!is_traced_other_task()) return nullptr;
  const VforkState &vforked = vfork_state();
  if (vforked.depth) return vforked.before;
  SharingTask *task = t_sharers ? calling_sharer() : nullptr;
  return task && !task->shares_files ? task->thread : nullptr;
}

BeforeVfork before_vfork() {
  VforkState &state = vfork_state();
  if (state.depth) return {&state, state.depth};
  Thread *t = enter();
  if (t && t->segment && t->next + kRoomBeside > t->limit) make_room(t, kRoomBeside);
  state.before = t ? t : thread_beside();
  if (state.before) state.paths_taken = state.before->paths_taken;
  return {&state, 0};
}

void enter_vfork_child(BeforeVfork before) {
  if (t_sharers) before.state->child = sys::gettid();
  if (before.state->depth++ == 0) t_thread = nullptr;
}

void after_vfork(BeforeVfork before, pid_t child) {
  VforkState &state = *before.state;
  if (!before.depth && state.depth) {
    if (!t_sharers) t_thread = state.before;
    // A signal may have ended the child with some of them.
    if (state.before && is_recording()) state.before->paths_taken = state.paths_taken;
    give_back_childs_pages();
  }
  state.child = before.depth && t_sharers ? sys::gettid() : 0;
  state.depth = static_cast<uint32_t>(before.depth);
  if (state.confined > state.depth) state.confined = 0;
  if (child <= 0 || g_session.state.load(std::memory_order_relaxed) != State::kOn) return;
  if (!is_of(place_of(child).who.load(std::memory_order_acquire), child)) note_child(child, ChildKind::kOurs);
}

SharingTask *expect_sharer(int (*function)(void *), void *argument, bool shares_files, bool own_tls) {
  Thread *self = enter();
  if (!self) return nullptr;
  SharingTask *task, *maker = nullptr;
  Thread *thread;
  {
    Locked lock(g_wiped.table);
    thread = take_thread();
    task = thread ? make_task(thread, shares_files) : nullptr;
    if (task && !own_tls && !t_sharers) maker = make_task(self, true);
  }
  if (!task || (!own_tls && !t_sharers && !maker)) {
    if (thread) thread->in_use.store(0, std::memory_order_release);
    return nullptr;
  }
  task->function = function;
  task->argument = argument;
  if (own_tls) return task;
  if (maker) {
    maker->tid.store(sys::gettid(), std::memory_order_relaxed);
    t_sharers = maker;
    t_thread = nullptr;
  }
  // Behind the maker, whose place is the last.
  task->next = t_sharers;
  t_sharers = task;
  return task;
}

void enter_sharer(SharingTask *task, bool own_tls) {
  if (own_tls) {
    t_sharers = task;
    t_thread = nullptr;
  }
  task->thread->tid = static_cast<uint32_t>(sys::gettid());
  if (task->thread->segment) note_thread(task->thread);
  task->tid.store(static_cast<int>(task->thread->tid), std::memory_order_release);
}

void keep_sharer(SharingTask *task, pid_t child) {
  if (child < 0) {
    task->thread->in_use.store(0, std::memory_order_release);
    if (t_sharers) remove_sharer(task);
    return;
  }
  task->pid = child;
  if (!is_of(place_of(child).who.load(std::memory_order_acquire), child)) note_child(child, ChildKind::kOurs);
}

void note_child(pid_t pid, ChildKind kind) {
  Started &place = place_of(pid);
  const uint64_t who = place.who.load(std::memory_order_relaxed);
  if (!is_of(who, pid)) place.own_bytes.store(0, std::memory_order_relaxed);
  place.who.store(word_of(pid, kind), std::memory_order_release);
}

bool is_child_ours(pid_t pid) {
  return place_of(pid).who.load(std::memory_order_acquire) == word_of(pid, ChildKind::kOurs);
}

StartedChild take_child(pid_t pid) {
  for (SharingTask *task = t_sharers; task; task = task->next) {
    if (task->pid != pid) continue;
    remove_sharer(task);
    break;
  }
  Started &place = place_of(pid);
  uint64_t who = place.who.load(std::memory_order_acquire);
  if (!is_of(who, pid)) return {};
  StartedChild found{static_cast<ChildKind>(who & 0xFF), place.own_bytes.load(std::memory_order_relaxed)};
  place.who.compare_exchange_strong(who, 0, std::memory_order_relaxed);
  return found;
}

void count_own_beside(int64_t read) {
  if (read <= 0 || g_session.state.load(std::memory_order_relaxed) != State::kOn) return;
  const pid_t pid = sys::getpid();
  Started &place = place_of(pid);
  if (!is_of(place.who.load(std::memory_order_relaxed), pid)) note_child(pid, ChildKind::kOurs);
  place.own_bytes.fetch_add(read, std::memory_order_relaxed);
}

}  // namespace tailrace
