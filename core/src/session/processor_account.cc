// See session/processor_account.h.
#include "session/processor_account.h"

#include "base/own_memory.h"
#include "base/sys.h"
#include "session/ledger.h"
#include "session/own_descriptors.h"
#include "session/record.h"

namespace tailrace {
namespace {

constexpr size_t kMostThreads = 512;  // some milliseconds

std::atomic<int64_t> g_ended_run_ns, g_ended_ready_ns;

struct ThreadTime {
  int tid;
  ProcessorTime time;
};

const Thread *find_thread(uint32_t tid) {
  Locked lock(g_wiped.table);
  for (const Thread *t = g_session.threads; t; t = t->next_thread) {
    if (t->tid == tid && t->in_use.load(std::memory_order_acquire)) return t;
  }
  return nullptr;
}

bool has_other_threads() {
  struct statx about;
  constexpr unsigned kLinksOfOne = 3;  // ".", "..", the thread
  return sys::statx(AT_FDCWD, "/proc/self/task", 0, STATX_NLINK, &about) < 0 || about.stx_nlink != kLinksOfOne;
}

// Takes those of a listing of /proc/self/task. Returns how many there are now.
size_t take_listed(const char *listing, long bytes, int self, ThreadTime *threads, size_t n, int64_t &bytes_read) {
  for (long at = 0; at < bytes && n < kMostThreads;) {
    // struct linux_dirent64 of getdents(2): inode and offset of 8 bytes each, length of 2, type of 1, name.
    uint16_t length;
    memcpy(&length, listing + at + 16, sizeof length);
    string_view name(listing + at + 19);
    at += length;
    uint64_t tid;
    if (!take_decimal(name, tid) || static_cast<int>(tid) == self) continue;
    threads[n++] = {static_cast<int>(tid), thread_time(static_cast<int>(tid), bytes_read)};
  }
  return n;
}

size_t times_of_others(ThreadTime *threads) {
  const int self = sys::gettid();
  size_t n = 0;
  with_own_look([&] {
    const int fd = sys::open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    int64_t bytes_read = 0;
    char listing[1024];
    for (long bytes; (bytes = sys::call(SYS_getdents64, fd, sys::pointer(listing), sizeof listing)) > 0;)
      n = take_listed(listing, bytes, self, threads, n, bytes_read);
    sys::close(fd);
    count_own(bytes_read, 0);
  });
  return n;
}

}  // namespace

ProcessorTime time_of_caller() {
  const int tid = sys::gettid();
  ProcessorTime time;
  with_own_look([&] {
    int64_t bytes_read = 0;
    time = is_in_own_table() ? thread_time(tid, bytes_read) : own_thread_time(bytes_read);
    count_own(bytes_read, 0);
  });
  return time;
}

void account_for_ended_thread() {
  if (is_vfork_child() || t_confined || !is_recording() || !g_wiped.alive.load()) return;
  const ProcessorTime time = time_of_caller();
  if (time.run_ns >= 0 && time.ready_ns >= 0) {
    g_ended_run_ns.fetch_add(time.run_ns, std::memory_order_relaxed);
    g_ended_ready_ns.fetch_add(time.ready_ns, std::memory_order_relaxed);
  }
  if (Thread *t = t_thread) record_thread(t, t->tid, t->began_ticks, time);
}

void forget_ended_threads() { g_ended_run_ns = g_ended_ready_ns = 0; }

ProcessTime account_for_process(Thread *t) {
  constexpr size_t kBytes = kMostThreads * sizeof(ThreadTime);
  const bool alone = !has_other_threads();
  if (alone && g_ended_run_ns.load() == 0) return {};
  auto *others = alone || !is_proc_ours() ? nullptr : static_cast<ThreadTime *>(own_memory::pages(kBytes));
  const size_t n = others ? times_of_others(others) : 0;
  ProcessTime sum;
  for (size_t i = 0; i < n; ++i) {
    sum.add(others[i].time);
    if (const Thread *other = find_thread(static_cast<uint32_t>(others[i].tid)))
      record_thread(t, other->tid, other->began_ticks, others[i].time);
  }
  if (others) own_memory::release(others, kBytes);
  const ProcessorTime own = time_of_caller();
  record_thread(t, t->tid, t->began_ticks, own);
  sum.add(own);
  if (sum.ready_ns >= 0) sum.add({g_ended_run_ns.load(), g_ended_ready_ns.load()});
  return sum;
}

ProcessTime child_time(int pid) {
  ProcessTime time;
  if (!is_proc_ours()) {
    time.run_ns = process_run_ns(pid);
    return time;
  }
  with_own_look([&] {
    int64_t bytes_read = 0;
    time = ended_process_time(pid, bytes_read);
    count_own(bytes_read, 0);
  });
  return time;
}

}  // namespace tailrace
