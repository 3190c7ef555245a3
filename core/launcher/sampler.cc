// See sampler.h.
#include "sampler.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/sys.h"
#include "fault.h"
#include "format/journal.h"

namespace tailrace::launcher {
namespace {

constexpr size_t kMostBytes = 256 << 10;
constexpr uint64_t kSecond = 1'000'000'000;

// "" where it can't be read: the process has ended, or the kernel has no such file.
std::string text_of(const std::string &path) {
  try {
    return read_file(path, kMostBytes);
  } catch (const Fault &) {
    return {};
  }
}

// The whole numbers of a text from `at` on, up to the line's end.
std::vector<uint64_t> numbers_in(const std::string &text, size_t at) {
  std::vector<uint64_t> found;
  const char *p = text.c_str() + at;
  while (*p != '\0' && *p != '\n') {
    if (*p >= '0' && *p <= '9') {
      char *end;
      found.push_back(::strtoull(p, &end, 10));
      p = end;
    } else {
      ++p;
    }
  }
  return found;
}

// The number behind `key` at the begin of a line; -1: there is none.
int64_t number_of(const std::string &text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    const auto numbers = numbers_in(text, at + key.size());
    return numbers.empty() ? -1 : static_cast<int64_t>(numbers[0]);
  }
  return -1;
}

uint64_t ticks_to_ns(uint64_t ticks) {
  static const auto rate = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return ticks * (kSecond / rate);
}

void add(std::string &out, const char *key, int64_t value) {
  if (value >= 0) ((out += ",\"") += key) += "\":" + std::to_string(value);
}

void begin_line(std::string &out, const char *name, int pid, uint64_t now_ns, uint64_t number) {
  const std::string id = std::to_string(pid);
  out += std::string("{\"name\":\"") + name + R"(","cat":"SAMPLE","ph":"C","pid":)" + id + ",\"tid\":" + id +
         ",\"ts\":" + std::to_string(now_ns / 1000) + ",\"args\":{\"ns\":" + std::to_string(now_ns % 1000) +
         ",\"n\":" + std::to_string(number);
}

void add_processors(std::string &out) {
  const std::string text = text_of("/proc/stat");
  if (text.rfind("cpu ", 0) == 0) {
    // user nice system idle iowait irq softirq steal (proc(5)); guests are in user.
    const auto t = numbers_in(text, 4);
    if (t.size() < 8) return;
    add(out, "user_ns", static_cast<int64_t>(ticks_to_ns(t[0] + t[1])));
    add(out, "system_ns", static_cast<int64_t>(ticks_to_ns(t[2] + t[5] + t[6])));
    add(out, "idle_ns", static_cast<int64_t>(ticks_to_ns(t[3])));
    add(out, "iowait_ns", static_cast<int64_t>(ticks_to_ns(t[4])));
    add(out, "steal_ns", static_cast<int64_t>(ticks_to_ns(t[7])));
  }
  add(out, "switches", number_of(text, "ctxt"));
  add(out, "running", number_of(text, "procs_running"));
  add(out, "blocked", number_of(text, "procs_blocked"));
}

void add_memory(std::string &out) {
  const std::string text = text_of("/proc/meminfo");
  auto bytes = [&](const char *key) {
    const int64_t kib = number_of(text, key);
    return kib < 0 ? -1 : kib * 1024;
  };
  add(out, "memory_bytes", bytes("MemTotal:"));
  add(out, "available_bytes", bytes("MemAvailable:"));
  add(out, "dirty_bytes", bytes("Dirty:"));
  add(out, "writeback_bytes", bytes("Writeback:"));
  const int64_t total = bytes("SwapTotal:"), free = bytes("SwapFree:");
  if (total >= 0 && free >= 0) add(out, "swapped_bytes", total - free);
}

// Time in which some, or all, tasks that had something to do waited for the resource.
void add_pressure(std::string &out) {
  for (const char *resource : {"cpu", "memory", "io"}) {
    const std::string text = text_of(std::string("/proc/pressure/") + resource);
    for (const char *share : {"some", "full"}) {
      const size_t line = text.find(share), at = text.find("total=", line);
      if (line == std::string::npos || at == std::string::npos) continue;
      const auto us = static_cast<int64_t>(::strtoull(text.c_str() + at + 6, nullptr, 10));
      add(out, (std::string(resource) + "_" + share + "_ns").c_str(), us * 1000);
    }
  }
}

// Of all threads that a process has now.
int64_t switches_of(const std::string &folder) {
  int64_t sum = -1;
  try {
    for (const std::string &thread : names_in(folder + "/task")) {
      const std::string text = text_of(std::string(folder).append("/task/").append(thread).append("/status"));
      for (const char *key : {"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"}) {
        const int64_t found = number_of(text, key);
        if (found >= 0) sum = (sum < 0 ? 0 : sum) + found;
      }
    }
  } catch (const Fault &) {
    return -1;
  }
  return sum;
}

}  // namespace

double sample_rate(const char *setting) {
  if (setting == nullptr || *setting == '\0') return 0;
  const double rate = std::strtod(setting, nullptr);
  return rate > 0 ? rate : 0;
}

SamplerThread::SamplerThread(const std::string &run_dir, std::vector<std::string> journals, double rate)
    : journals_(std::move(journals)),
      period_ns_(static_cast<uint64_t>(1e9 / rate)),
      begun_monotonic_ns_(monotonic_ns()),
      begun_realtime_ns_(realtime_at(begun_monotonic_ns_)),
      host_(file_host()),
      out_([&] {
        const std::string folder = run_dir + "/samples";
        ::mkdir(folder.c_str(), 0700);
        const std::string stem = process_stem(::getpid(), static_cast<int64_t>(begun_realtime_ns_));
        const std::string path = std::string(folder).append("/").append(stem).append(".jsonl");
        return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
      }()) {
  if (!out_.is_open()) return;
  // A signal for this process is its other threads' to take.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  is_running_ = pthread_create(&thread_, nullptr, begin, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SamplerThread::~SamplerThread() {
  if (!is_running_) return;
  stopping_.store(1);
  sys::futex(&stopping_, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
  pthread_join(thread_, nullptr);
}

void *SamplerThread::begin(void *self) {
  static_cast<SamplerThread *>(self)->run();
  return nullptr;
}

void SamplerThread::run() {
  uint64_t next = monotonic_ns();
  while (!stopping_.load()) {
    try {
      sample();
    } catch (const std::exception &) {
      ++number_;  // it is missing by its number
    }
    // After a pause of the machine, or where a sample takes longer than the period, not many at once.
    const uint64_t now = monotonic_ns();
    next = next + period_ns_ > now ? next + period_ns_ : now + period_ns_;
    // By the kernel, whatever libc's clocks are (base/clock.h).
    while (!stopping_.load() && monotonic_ns() < next) {
      const uint64_t rest = next - monotonic_ns();
      const timespec most = {static_cast<time_t>(rest / kSecond), static_cast<long>(rest % kSecond)};
      if (rest < period_ns_ * 2)
        sys::call(SYS_futex, sys::pointer(&stopping_), FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, sys::pointer(&most), 0, 0);
    }
  }
  try {
    sample();
  } catch (const std::exception &) {
    return;
  }
}

void SamplerThread::sample() {
  std::string out = torn_ ? "\n" : "";
  add_node(out, begun_realtime_ns_ + monotonic_ns() - begun_monotonic_ns_);
  add_processes(out);
  ++number_;
  const ssize_t n = ::write(out_.get(), out.data(), out.size());
  torn_ = n > 0 ? out[static_cast<size_t>(n) - 1] != '\n' : torn_;
}

void SamplerThread::add_node(std::string &out, uint64_t now_ns) {
  begin_line(out, "node", 0, now_ns, number_);
  out += ",\"host\":\"" + host_ + '"';
  add(out, "processors", ::sysconf(_SC_NPROCESSORS_ONLN));
  add_processors(out);
  add_memory(out);
  add_pressure(out);
  out += "}}\n";
}

// A container's process may have a journal here, and a pid that is another one's in our namespace. Empty while the
// header is being written, which a later sample finds whole.
std::optional<bool> SamplerThread::is_of_this_namespace(const std::string &journal) {
  const Descriptor fd(::open(journal.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  auto header = std::make_unique<SegmentHeader>();
  const bool whole = fd.is_open() && ::pread(fd.get(), header.get(), sizeof *header, 0) == sizeof *header;
  if (!whole || header->magic == 0) return std::nullopt;
  return header->magic == kJournalMagic && header->version == kJournalVersion &&
         header->pid_namespace == pid_namespace();
}

void SamplerThread::add_processes(std::string &out) {
  std::set<std::string> there;
  for (const std::string &directory : journals_) {
    std::vector<std::string> names;
    try {
      names = names_in(directory);
    } catch (const Fault &) {
      continue;
    }
    for (const std::string &name : names) {
      // HOST-PID-START.N.tj, where neither has a "-".
      const size_t first = name.find('-'), second = name.find('-', first + 1), dot = name.find('.', second + 1);
      if (!ends_with(name, ".tj") || second == std::string::npos || dot == std::string::npos) continue;
      const std::string stem = name.substr(0, dot);
      if (!there.insert(stem).second) continue;
      auto known = ours_.find(stem);
      if (known == ours_.end()) {
        const auto ours = is_of_this_namespace(std::string(directory).append("/").append(name));
        if (!ours) continue;
        known = ours_.emplace(stem, *ours).first;
      }
      const int pid = std::atoi(name.c_str() + first + 1);
      if (known->second && pid > 0) add_process(out, pid, name.substr(second + 1, dot - second - 1));
    }
  }
  for (auto at = ours_.begin(); at != ours_.end();) at = there.count(at->first) != 0 ? std::next(at) : ours_.erase(at);
}

void SamplerThread::add_process(std::string &out, int pid, const std::string &start) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string stat = text_of(folder + "/stat");
  // Fields follow the name in parentheses, which may contain any character; state is the first.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return;
  const char state = stat[name_end + 2];
  // A zombie has no memory, and its journal waits for the sealer. The numbers begin with ppid; some may be -1.
  const auto f = numbers_in(stat, name_end + 3);
  if (state == 'Z' || state == 'X' || f.size() < 21) return;
  // Before the time is taken, as all that the line tells: none of it is later than the line's time.
  const int64_t switches = switches_of(folder);
  begin_line(out, "process", pid, begun_realtime_ns_ + monotonic_ns() - begun_monotonic_ns_, number_);
  out += ",\"start\":\"" + start + '"';
  add(out, "user_ns", static_cast<int64_t>(ticks_to_ns(f[10])));
  add(out, "system_ns", static_cast<int64_t>(ticks_to_ns(f[11])));
  add(out, "memory_bytes", static_cast<int64_t>(f[20]) * ::sysconf(_SC_PAGESIZE));
  add(out, "threads", static_cast<int64_t>(f[16]));
  add(out, "major_faults", static_cast<int64_t>(f[8]));
  add(out, "switches", switches);
  out += "}}\n";
}

}  // namespace tailrace::launcher
