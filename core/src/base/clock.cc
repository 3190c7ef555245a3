// See base/clock.h.
#include "base/clock.h"

#include "base/sys.h"

namespace tailrace {

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
  ClockSample best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    uint64_t before = read_ticks(kind);
    uint64_t ns = monotonic_ns();
    uint64_t width = read_ticks(kind) - before;
    if (width < best_width) {
      best_width = width;
      best = {before + width / 2, ns};
    }
  }
  return best;
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
      out.number(static_cast<int64_t>(realtime_ns()));
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

uint64_t rate_between(const ClockSample &a, const ClockSample &b) {
  if (b.ticks <= a.ticks || b.monotonic_ns <= a.monotonic_ns) return 1ULL << 32;
  auto span = static_cast<unsigned __int128>(b.monotonic_ns - a.monotonic_ns) << 32;
  return static_cast<uint64_t>(span / (b.ticks - a.ticks));
}

}  // namespace tailrace
