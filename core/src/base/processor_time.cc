// See base/processor_time.h.
#include "base/processor_time.h"

#include "base/sys.h"
#include "base/text.h"

namespace tailrace {
namespace {

// The kernel's numbering of clocks (posix-timers_types.h): the complement of a pid or tid, and which of its clocks.
constexpr long kSchedClock = 2, kOfThread = 4;
constexpr long clock_of(int id, long of) {
  return static_cast<long>(~static_cast<unsigned>(id) << 3) | kSchedClock | of;
}

int64_t read_clock(long clock) {
  timespec t;
  if (sys::call(SYS_clock_gettime, static_cast<int>(clock), sys::pointer(&t)) < 0) return kUnknownTime;
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

bool take_number(string_view &text, uint64_t &number) {
  if (!take_decimal(text, number)) return false;
  if (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  return true;
}

// Both as the kernel has them: what was on a processor up to the last tick. Unknown where there is no such file, or the
// kernel doesn't count: then all is zero, also the number of times that the thread got a processor.
ProcessorTime read_schedstat(const char *path, int64_t &bytes_read) {
  char room[96];
  const int fd = sys::open(path, O_RDONLY);
  if (fd < 0) return {};
  const long n = sys::read(fd, room, sizeof room);
  sys::close(fd);
  if (n <= 0) return {};
  bytes_read += n;
  string_view text(room, static_cast<size_t>(n));
  uint64_t run = 0, ready = 0, turns = 0;
  const bool whole = take_number(text, run) && take_number(text, ready) && take_number(text, turns);
  if (!whole || (run == 0 && ready == 0 && turns == 0)) return {};
  return {static_cast<int64_t>(run), static_cast<int64_t>(ready)};
}

ProcessorTime read_of(string_view directory, int id, int64_t &bytes_read) {
  char path[64];
  Writer w(path, sizeof path);
  (w << directory).number(id) << "/schedstat";
  return read_schedstat(w.c_str(), bytes_read);
}

}  // namespace

ProcessorTime own_thread_time(int64_t &bytes_read) {
  ProcessorTime time = read_schedstat("/proc/thread-self/schedstat", bytes_read);
  time.run_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
  return time;
}

ProcessorTime thread_time(int tid, int64_t &bytes_read) {
  ProcessorTime time = read_of("/proc/self/task/", tid, bytes_read);
  time.run_ns = read_clock(clock_of(tid, kOfThread));
  return time;
}

ProcessorTime stopped_thread_time(int tid, int64_t &bytes_read) { return read_of("/proc/", tid, bytes_read); }

int64_t process_run_ns(int pid) { return read_clock(clock_of(pid, 0)); }

ProcessTime ended_process_time(int pid, int64_t &bytes_read) {
  ProcessTime time;
  time.run_ns = process_run_ns(pid);
  // Nothing runs any more, so that the first thread's is exact.
  time.add(read_of("/proc/", pid, bytes_read));
  return time;
}

bool has_schedstat(int64_t &bytes_read) {
  return read_schedstat("/proc/thread-self/schedstat", bytes_read).ready_ns >= 0;
}

}  // namespace tailrace
