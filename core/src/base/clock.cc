// See base/clock.h.
#include "base/clock.h"

#include "base/sys.h"

namespace tailrace {

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
      out.number(static_cast<int64_t>(s.monotonic_ns));
      return;
    }
  }
#endif
  out << "monotonic";
}

ClockReference parse_clock_reference(string_view text) {
  ClockReference ref;
#if defined(__x86_64__)
  uint64_t ticks, ns;
  if (!starts_with(text, "tsc:")) return ref;
  text.remove_prefix(4);
  if (!take_decimal(text, ticks) || text.empty() || text[0] != ':') return ref;
  text.remove_prefix(1);
  if (!take_decimal(text, ns) || !text.empty()) return ref;
  ref.kind = ClockKind::kTsc;
  ref.sample = {ticks, ns};
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
