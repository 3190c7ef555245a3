// See base/clock.h.
#include "base/clock.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "base/sys.h"

namespace tailrace {
namespace {

int ask_kernel(clockid_t clock, timespec *out) {
  return static_cast<int>(sys::call(SYS_clock_gettime, clock, sys::pointer(out)));
}

// A function of the vDSO by its symbol table (vdso(7)); null where there is none. Its size is that of the table of
// hashes: DT_HASH says it, DT_GNU_HASH by its last chain.
class Vdso {
 public:
  explicit Vdso(uintptr_t image) : image_(image) {
    const auto *header = reinterpret_cast<const ElfW(Ehdr) *>(image);
    const auto *segments = reinterpret_cast<const ElfW(Phdr) *>(image + header->e_phoff);
    const ElfW(Dyn) *entry = nullptr;
    for (int i = 0; i < header->e_phnum; ++i) {
      if (segments[i].p_type == PT_LOAD && !bias_) bias_ = image + segments[i].p_offset - segments[i].p_vaddr;
      if (segments[i].p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn) *>(image + segments[i].p_offset);
    }
    for (; entry && entry->d_tag != DT_NULL; ++entry) take(*entry);
  }

  void *find(string_view name) const {
    for (uint32_t i = 0; symbols_ && names_ && i < count(); ++i) {
      const ElfW(Sym) &symbol = symbols_[i];
      if (symbol.st_shndx != SHN_UNDEF && string_view(names_ + symbol.st_name) == name)
        return reinterpret_cast<void *>(bias_ + symbol.st_value);
    }
    return nullptr;
  }

 private:
  void take(const ElfW(Dyn) & entry) {
    const uintptr_t at = bias_ + entry.d_un.d_ptr;
    if (entry.d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym) *>(at);
    if (entry.d_tag == DT_STRTAB) names_ = reinterpret_cast<const char *>(at);
    if (entry.d_tag == DT_HASH) hashes_ = reinterpret_cast<const uint32_t *>(at);
    if (entry.d_tag == DT_GNU_HASH) gnu_hashes_ = reinterpret_cast<const uint32_t *>(at);
  }

  uint32_t count() const {
    if (hashes_) return hashes_[1];
    if (!gnu_hashes_) return 0;
    const uint32_t buckets = gnu_hashes_[0], first = gnu_hashes_[1], words = gnu_hashes_[2];
    const uint32_t *bucket = gnu_hashes_ + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
    if (last < first) return first;
    while (!(chains[last - first] & 1)) ++last;
    return last + 1;
  }

  uintptr_t image_, bias_ = 0;
  const ElfW(Sym) *symbols_ = nullptr;
  const char *names_ = nullptr;
  const uint32_t *hashes_ = nullptr, *gnu_hashes_ = nullptr;
};

// From here on g_kernel_clock is what it finds.
int find_clock(clockid_t clock, timespec *out) {
#if defined(__x86_64__)
  constexpr string_view kName = "__vdso_clock_gettime";
#else
  constexpr string_view kName = "__kernel_clock_gettime";
#endif
  const uintptr_t image = getauxval(AT_SYSINFO_EHDR);
  void *found = image ? Vdso(image).find(kName) : nullptr;
  ClockFunction *function = found ? reinterpret_cast<ClockFunction *>(found) : ask_kernel;
  g_kernel_clock.store(function, std::memory_order_relaxed);
  return function(clock, out);
}

// Calls `read`, which returns how long it took, until it was at once: a reading between two others in which nothing
// else ran. After so many tries the best one counts.
constexpr int kTries = 16;
template <class Read>
void read_together(uint64_t enough, Read read) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < kTries && (i < 3 || best > enough); ++i) {
    const uint64_t width = read(best);
    if (width < best) best = width;
  }
}

}  // namespace

std::atomic<ClockFunction *> g_kernel_clock{find_clock};

uint64_t clock_ahead_ns(clockid_t first, clockid_t second) {
  constexpr uint64_t kAtOnceNs = 5'000;
  uint64_t ahead = 0;
  read_together(kAtOnceNs, [&](uint64_t best) {
    const uint64_t before = clock_ns(second), between = clock_ns(first), width = clock_ns(second) - before;
    if (width < best) ahead = between - (before + width / 2);
    return width;
  });
  return ahead;
}

uint64_t g_namespace_ahead_ns = 0;

namespace {

bool is_in_namespace_of_children() {
  char own[64], of_children[64];
  long n = sys::readlink("/proc/self/ns/time", own, sizeof own);
  long m = sys::readlink("/proc/self/ns/time_for_children", of_children, sizeof of_children);
  return n > 0 && m > 0 && string_view(own, static_cast<size_t>(n)) == string_view(of_children, static_cast<size_t>(m));
}

// The number at the begin of `text` behind blanks, which may be negative.
int64_t take_signed(string_view &text) {
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  uint64_t number = 0;
  take_decimal(text, number);
  return negative ? -static_cast<int64_t>(number) : static_cast<int64_t>(number);
}

}  // namespace

// /proc/self/timens_offsets is about the namespace of children to come: "monotonic     780         0", seconds and
// nanoseconds. That is the process's own, unless it has called unshare(2) itself; then it stays as it is.
void find_time_namespace() {
  char text[256];
  int fd = sys::open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  long n = sys::read(fd, text, sizeof text);
  sys::close(fd);
  constexpr string_view kName = "monotonic";
  string_view rest(text, n > 0 ? static_cast<size_t>(n) : 0);
  if (!starts_with(rest, kName)) return;
  rest.remove_prefix(kName.size());
  const int64_t seconds = take_signed(rest), ahead_ns = seconds * 1000000000LL + take_signed(rest);
  if (ahead_ns == 0 || is_in_namespace_of_children()) g_namespace_ahead_ns = static_cast<uint64_t>(ahead_ns);
}

void find_time_namespace(uint64_t earlier_monotonic_ns, uint64_t earlier_realtime_ns) {
  constexpr int64_t kSameNs = 1'000'000;
  const auto apart_ns =
      static_cast<int64_t>(realtime_ns() - monotonic_ns() - earlier_realtime_ns + earlier_monotonic_ns);
  if (apart_ns >= kSameNs || apart_ns <= -kSameNs) find_time_namespace();
}

ClockSample sample_clock(ClockKind kind) {
  if (kind == ClockKind::kMonotonic) {
    uint64_t now = monotonic_ns();
    return {now, now};
  }
  constexpr uint64_t kAtOnceTicks = 20'000;
  ClockSample sample{};
  read_together(kAtOnceTicks, [&](uint64_t best) {
    const uint64_t before = read_ticks(kind), ns = monotonic_ns(), width = read_ticks(kind) - before;
    if (width < best) sample = {before + width / 2, ns};
    return width;
  });
  return sample;
}

void write_clock_reference(Writer &out) {
  find_time_namespace();
#if defined(__x86_64__)
  char source[16] = {};
  int fd = sys::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY);
  if (fd >= 0) {
    long n = sys::read(fd, source, sizeof source - 1);
    sys::close(fd);
    if (n >= 3 && string_view(source, 3) == "tsc") {
      ClockSample s = sample_clock(ClockKind::kTsc);
      out << "tsc:";
      out.number(static_cast<int64_t>(s.ticks)) << ':';
      out.number(static_cast<int64_t>(s.monotonic_ns)) << ':';
      out.number(static_cast<int64_t>(realtime_at(s.monotonic_ns)));
      return;
    }
  }
#endif
  out << "monotonic";
}

ClockReference parse_clock_reference(string_view text) {
  ClockReference ref;
#if defined(__x86_64__)
  uint64_t ticks, ns, realtime = 0;
  if (!starts_with(text, "tsc:")) return ref;
  text.remove_prefix(4);
  if (!take_decimal(text, ticks) || text.empty() || text[0] != ':') return ref;
  text.remove_prefix(1);
  if (!take_decimal(text, ns)) return ref;
  if (!text.empty() && text[0] == ':') {
    text.remove_prefix(1);
    if (!take_decimal(text, realtime)) return ref;
  }
  if (!text.empty()) return ref;
  ref.kind = ClockKind::kTsc;
  ref.sample = {ticks, ns};
  ref.realtime_ns = realtime;
#else
  (void)text;
#endif
  return ref;
}

ClockKind clock_kind_here() {
  char text[64];
  Writer w(text, sizeof text);
  write_clock_reference(w);
  return parse_clock_reference(w.view()).kind;
}

uint64_t rate_between(const ClockSample &a, const ClockSample &b) {
  if (b.ticks <= a.ticks || b.monotonic_ns <= a.monotonic_ns) return 1ULL << 32;
  auto span = static_cast<unsigned __int128>(b.monotonic_ns - a.monotonic_ns) << 32;
  return static_cast<uint64_t>(span / (b.ticks - a.ticks));
}

}  // namespace tailrace
