// See session/give_way.h.
#include "session/give_way.h"

#include <errno.h>

#include "base/sys.h"
#include "session/proc_self.h"
#include "session/session.h"

namespace tailrace {
namespace {

constexpr size_t kMostRunning = 256;
constexpr int kMostPauses = 100;  // of a millisecond

void pause_a_millisecond() {
  const timespec time{0, 1'000'000};
  sys::call(SYS_nanosleep, sys::pointer(&time), 0);
}

// A file of a thread's in /proc; empty without.
string_view read_of_thread(int tid, string_view name, char *text, size_t size) {
  char path[64];
  Writer w(path, sizeof path);
  w << "/proc/self/task/";
  w.number(tid) << name;
  const int fd = sys::open(w.c_str(), O_RDONLY);
  const long n = fd >= 0 ? sys::read(fd, text, size) : 0;
  if (fd >= 0) sys::close(fd);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

// "pid (name) state ..."; the name may have any characters.
bool is_running(int tid) {
  char text[128];
  const string_view stat = read_of_thread(tid, "/stat", text, sizeof text);
  const size_t name_end = stat.rfind(')');
  return name_end != string_view::npos && name_end + 2 < stat.size() && stat[name_end + 2] == 'R';
}

// How long it has been on a processor; 0: the kernel does not say.
uint64_t processor_ns(int tid) {
  char text[96];
  string_view schedstat = read_of_thread(tid, "/schedstat", text, sizeof text);
  uint64_t ns = 0;
  return take_decimal(schedstat, ns) ? ns : 0;
}

struct Running {
  int tid;
  uint64_t ns;
};
// Not on the stack, which may be small. Two threads that give way at once wait too short, at worst.
Running g_running[kMostRunning];

bool are_locks_free() { return g_wiped.sealing.is_free() && g_wiped.table.is_free() && g_wiped.functions.is_free(); }

// A thread that sleeps records nothing, unless it waits for a lock of ours. One that runs, or waits for a processor,
// has left what it was recording when it has been on one since.
void wait_for_threads() {
  size_t count = 0;
  const bool is_known = each_other_thread([&](int tid) {
    if (is_running(tid) && count < kMostRunning) g_running[count++] = {tid, processor_ns(tid)};
    return count < kMostRunning;
  });
  for (int i = 0; i < kMostPauses; ++i) {
    size_t left = 0;
    for (size_t at = 0; at < count; ++at) {
      const Running thread = g_running[at];
      if (is_running(thread.tid) && processor_ns(thread.tid) == thread.ns) g_running[left++] = thread;
    }
    count = left;
    if (is_known && !count && are_locks_free()) return;
    pause_a_millisecond();
  }
}

// Whether it is for want of addresses that nothing so large can be mapped, and not for a limit or for memory.
bool is_out_of_addresses(size_t bytes) {
  constexpr long kAddressSpace = 9;  // RLIMIT_AS
  uint64_t limit[2] = {0, 0};
  sys::call(SYS_prlimit64, 0, kAddressSpace, 0, sys::pointer(limit));
  if (limit[0] < bytes) return false;
  const auto size = static_cast<long>(bytes);
  const long at = sys::call(SYS_mmap, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at < 0 && at > -4096) return true;
  sys::call(SYS_munmap, at, size);
  return false;
}

}  // namespace

bool give_way(own_memory::Range range) {
  const int saved = errno;
  // A forked child that has not recorded yet has its parent's table.
  Thread *t = enter();
  const bool is_ours = !own_memory::next(range).is_empty();
  if (is_ours) {
    sys::SignalsBlocked signals;
    if (is_recording()) {
      count_loss(t, Loss::kGaveWay);
      stop_tracing();
    }
    wait_for_threads();
    if (g_session.end_exposures) g_session.end_exposures();
    own_memory::give_up(range);
  }
  errno = saved;
  return is_ours;
}

bool make_gap(size_t bytes) {
  // Smaller ones there always are; all of the address space is asked for by mistake.
  constexpr size_t kLeast = size_t{1} << 40, kMost = size_t{1} << 56;
  if (bytes < kLeast || bytes > kMost || !is_out_of_addresses(bytes)) return false;
  const int saved = errno;
  own_memory::Range gap{0, 0};
  uintptr_t before = 0;
  each_mapping([&](uintptr_t begin, uintptr_t end) {
    const own_memory::Range ours = own_memory::next({begin, end});
    if (ours.begin == begin && ours.end == end) return true;
    if (begin - before >= bytes && begin < kMost) gap = {before, begin};
    before = end;
    return gap.is_empty();
  });
  const bool is_made = !gap.is_empty() && give_way(gap);
  errno = saved;
  return is_made;
}

}  // namespace tailrace
