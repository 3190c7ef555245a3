// See format/host_facts.h.
#include "format/host_facts.h"

#include "base/processor_time.h"
#include "base/sys.h"
#include "format/journal.h"

namespace tailrace {
namespace {

// Blanks, tabs, newlines and backslashes in names are written in octal.
string_view unescape(char *field, size_t n) {
  char *to = field;
  for (size_t i = 0; i < n; ++to) {
    bool octal = field[i] == '\\' && i + 3 < n && field[i + 1] >= '0' && field[i + 1] <= '3';
    *to = octal ? static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'))
                : field[i];
    i += octal ? 4 : 1;
  }
  return {field, static_cast<size_t>(to - field)};
}

}  // namespace

namespace {

// What the hook of a call does in its usual case: two readings of the clock, and a slot. The least of several rounds,
// since others may run on the processor meanwhile.
int64_t measure_record_ns(ClockKind kind) {
  constexpr int kRounds = 4;
  constexpr uint64_t kRecords = 48;
  alignas(64) Slot slots[kRecords];
  uint64_t least = UINT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t begin = monotonic_ns();
    for (uint64_t i = 0; i < kRecords; ++i) {
      Slot &s = slots[i];
      s.t0 = read_ticks(kind);
      s.context = 1;
      s.file = s.file2 = i;
      s.offset = static_cast<int64_t>(i);
      s.count = i;
      s.ret = 0;
      s.t1 = read_ticks(kind);
      s.mark.store(static_cast<uint32_t>(i), std::memory_order_release);
    }
    const uint64_t took = monotonic_ns() - begin;
    if (took < least) least = took;
  }
  return static_cast<int64_t>((least + kRecords - 1) / kRecords);
}

}  // namespace

void write_time_facts(Writer &out, ClockKind kind, int64_t &bytes_read) {
  out << "{\"schedstat\": " << (has_schedstat(bytes_read) ? "true" : "false") << ", \"record_ns\": ";
  out.number(measure_record_ns(kind)) << '}';
}

bool write_boot_id(Writer &out, int64_t &bytes_read) {
  char id[64];
  int fd = sys::open("/proc/sys/kernel/random/boot_id", O_RDONLY);
  if (fd < 0) return false;
  long n = sys::read(fd, id, sizeof id);
  sys::close(fd);
  if (n > 0) bytes_read += n;
  constexpr long kUuidAndNewline = 37;
  if (n != kUuidAndNewline) return false;
  out << string_view(id, kUuidAndNewline - 1);
  return true;
}

bool parse_mount(char *line, size_t n, MountLine &out) {
  constexpr int kBefore = 5, kBehind = 2;  // fields before the " - " and behind it
  string_view fields[kBefore + kBehind] = {};
  int count = 0;
  bool behind = false;
  for (size_t i = 0; i < n && count < kBefore + kBehind;) {
    size_t end = i;
    while (end < n && line[end] != ' ') ++end;
    if (!behind && end == i + 1 && line[i] == '-') {
      if (count < kBefore) return false;
      behind = true;
    } else if (behind || count < kBefore) {
      fields[count++] = unescape(line + i, end - i);
    }
    i = end + 1;
  }
  if (count < kBefore + kBehind) return false;
  out = {fields[2], fields[6], fields[3], fields[4], fields[5]};
  return true;
}

}  // namespace tailrace
