// See session/proc_self.h.
#include "session/proc_self.h"

#include <string.h>

#include "base/own_memory.h"
#include "base/sys.h"
#include "base/text.h"
#include "session/ledger.h"

namespace tailrace {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

uintptr_t take_hex(const char *&at, const char *end) {
  uintptr_t value = 0;
  for (int digit; at < end && (digit = digit_of(*at)) >= 0; ++at) value = value << 4 | static_cast<uintptr_t>(digit);
  return value;
}

}  // namespace

bool visit_other_threads(bool (*visit)(void *, int), void *argument) {
  if (!is_proc_ours()) return false;
  const int fd = sys::open("/proc/self/task", O_RDONLY | O_DIRECTORY), self = sys::gettid();
  if (fd < 0) return false;
  char buffer[1024];
  bool whole = true;
  long n;
  while (whole && (n = sys::call(SYS_getdents64, fd, sys::pointer(buffer), sizeof buffer)) != 0) {
    whole = n > 0;
    for (long at = 0; whole && at < n;) {
      // struct linux_dirent64 of getdents(2): inode and offset of 8 bytes each, length of 2, type of 1, name.
      uint16_t length;
      memcpy(&length, buffer + at + 16, sizeof length);
      string_view name(buffer + at + 19);
      at += length;
      uint64_t tid;
      if (take_decimal(name, tid) && static_cast<int>(tid) != self) whole = visit(argument, static_cast<int>(tid));
    }
  }
  sys::close(fd);
  return whole;
}

// A line is below 128 bytes but for the path at its end.
bool visit_mappings(bool (*visit)(void *, uintptr_t, uintptr_t), void *argument) {
  constexpr size_t kBytes = 64 * 1024;
  auto *text = static_cast<char *>(own_memory::pages(kBytes));
  const int fd = text ? sys::open("/proc/self/maps", O_RDONLY) : -1;
  int64_t bytes_read = 0;
  size_t kept = 0;
  bool goes_on = fd >= 0;
  for (long n; goes_on && (n = sys::read(fd, text + kept, kBytes - kept)) > 0;) {
    bytes_read += n;
    kept += static_cast<size_t>(n);
    const char *at = text, *end = text + kept;
    while (const void *found = goes_on ? memchr(at, '\n', static_cast<size_t>(end - at)) : nullptr) {
      const auto *line_end = static_cast<const char *>(found);
      const uintptr_t first = take_hex(at, line_end);
      const uintptr_t last = at < line_end ? take_hex(++at, line_end) : 0;
      goes_on = visit(argument, first, last);
      at = line_end + 1;
    }
    kept = static_cast<size_t>(end - at);
    memmove(text, at, kept);
    if (kept == kBytes) kept = 0;  // a path that is longer than all of this: its rest is no line of ours
  }
  if (fd >= 0) sys::close(fd);
  if (text) own_memory::release(text, kBytes);
  count_own(bytes_read, 0);
  return fd >= 0;
}

}  // namespace tailrace
