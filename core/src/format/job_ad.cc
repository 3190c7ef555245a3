// See format/job_ad.h.
#include "format/job_ad.h"

#include <fcntl.h>

#include "base/sys.h"

namespace tailrace {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

string_view without_blanks(string_view text) {
  while (!text.empty() && is_blank(text[0])) text.remove_prefix(1);
  while (!text.empty() && is_blank(text[text.size() - 1])) text = slice(text, 0, text.size() - 1);
  return text;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_same_name(string_view a, string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// A string in quotes, with a backslash before a quote or a backslash in it; nothing where it does not end, or is
// longer.
void take_string(string_view text, JobAdAttribute &out) {
  size_t used = 0;
  for (size_t i = 1; i < text.size() && used + 1 < sizeof out.value; ++i) {
    if (text[i] == '"') {
      out.value[used] = 0;
      return;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    if (text[i] == 0) break;
    out.value[used++] = text[i];
  }
  out.value[0] = 0;
}

void take_number(string_view text, JobAdAttribute &out) {
  uint64_t number = 0;
  string_view rest = text;
  if (!take_decimal(rest, number) || !rest.empty() || text.size() >= sizeof out.value) return;
  memcpy(out.value, text.data(), text.size());
  out.value[text.size()] = 0;
}

void take_line(string_view line, JobAdAttribute *attributes, size_t count) {
  const size_t equals = line.find('=');
  if (equals == string_view::npos) return;
  const string_view name = without_blanks(slice(line, 0, equals));
  const string_view value = without_blanks(slice(line, equals + 1, line.size() - equals - 1));
  for (size_t i = 0; i < count; ++i) {
    if (value.empty() || !is_same_name(name, attributes[i].name)) continue;
    if (value[0] == '"')
      take_string(value, attributes[i]);
    else
      take_number(value, attributes[i]);
  }
}

}  // namespace

int64_t read_job_ad(const char *path, JobAdAttribute *attributes, size_t count) {
  // Whoever starts a program may have set the variable to a FIFO.
  const int fd = sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return 0;
  char text[4096];
  int64_t bytes = 0;
  size_t have = 0;
  bool skips = false;  // the rest of a line that has no room: a job's environment or arguments
  while (bytes < kMostBytes) {
    const long n = sys::read(fd, text + have, sizeof text - have);
    if (n <= 0) break;
    bytes += n;
    have += static_cast<size_t>(n);
    size_t at = 0;
    for (;;) {
      const string_view rest(text + at, have - at);
      const size_t end = rest.find('\n');
      if (end == string_view::npos) break;
      if (!skips) take_line(slice(rest, 0, end), attributes, count);
      skips = false;
      at += end + 1;
    }
    have -= at;
    memmove(text, text + at, have);
    if (have == sizeof text) {
      skips = true;
      have = 0;
    }
  }
  if (!skips) take_line({text, have}, attributes, count);
  sys::close(fd);
  return bytes;
}

}  // namespace tailrace
