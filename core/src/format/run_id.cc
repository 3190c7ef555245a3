// See format/run_id.h.
#include "format/run_id.h"

#include <string.h>

#include "format/checked_file.h"

namespace tailrace {
namespace {

constexpr string_view kKey = "\"run_id\"";
// Who writes the file has the id among its first members.
constexpr size_t kBeginBytes = 4096;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

size_t after_blanks(string_view text, size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
  return at;
}

// The id behind a key that ends at `at`; empty: this is no key, or has another value.
string_view value_at(string_view json, size_t at) {
  at = after_blanks(json, at);
  if (at >= json.size() || json[at] != ':') return {};
  at = after_blanks(json, at + 1);
  if (json.size() < at + kRunIdBytes + 2 || json[at] != '"' || json[at + kRunIdBytes + 1] != '"') return {};
  const string_view id = slice(json, at + 1, kRunIdBytes);
  for (const char c : id) {
    if (!is_hex(c)) return {};
  }
  return id;
}

}  // namespace

// Within a string its quotes would have a backslash before them.
string_view run_id_in(string_view json) {
  for (size_t i = 0; i + kKey.size() <= json.size(); ++i) {
    if (slice(json, i, kKey.size()) != kKey || (i > 0 && json[i - 1] == '\\')) continue;
    if (const string_view id = value_at(json, i + kKey.size()); !id.empty()) return id;
  }
  return {};
}

uint64_t RunId::find(string_view trace_file, char *room, size_t room_bytes) {
  const size_t folder = trace_file.rfind('/');
  const size_t run = folder == string_view::npos ? folder : slice(trace_file, 0, folder).rfind('/');
  if (run == string_view::npos) return bytes_ = 0;
  const uint64_t directory = fnv64(trace_file.data(), run);
  if (directory == directory_ && bytes_ > 0) return 0;
  directory_ = directory;
  bytes_ = 0;
  Writer path(room, room_bytes);
  path << slice(trace_file, 0, run) << "/run.json";
  if (path.overflowed()) return 0;
  const int fd = open_regular(path.c_str(), O_RDONLY);
  if (fd < 0) return 0;
  const long n = sys::read(fd, room, room_bytes < kBeginBytes ? room_bytes : kBeginBytes);
  sys::close(fd);
  if (n <= 0) return 0;
  const string_view id = run_id_in({room, static_cast<size_t>(n)});
  memcpy(text_, id.data(), id.size());
  bytes_ = id.size();
  return static_cast<uint64_t>(n);
}

}  // namespace tailrace
