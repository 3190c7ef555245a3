// See session/recorded_name.h.
#include "session/recorded_name.h"

#include <fcntl.h>

#include "base/sys.h"
#include "session/session.h"

namespace tailrace {
namespace {

// Directories that were found in place, by their hashes; a new one replaces another. Who may put a link in the place of
// one is the machine's administrator.
constexpr size_t kPlaces = 256;
std::atomic<uint64_t> g_in_place[kPlaces];

bool leads_to_machine(string_view directory, PathBuffer &room) {
  Writer path(room.data(), kPathBytes);
  path << directory;
  int fd = sys::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  char link[48];
  Writer w(link, sizeof link);
  w << "/proc/self/fd/";
  w.number(fd);
  long n = sys::readlink(w.c_str(), room.data(), kPathBytes);
  sys::close(fd);
  return n > 0 && NameHasher::is_public({room.data(), static_cast<size_t>(n)});
}

bool is_in_place(string_view name, PathBuffer &room) {
  const size_t slash = name.rfind('/');
  if (slash == 0) return true;
  const string_view directory = slice(name, 0, slash);
  const uint64_t hash = fnv64(directory.data(), directory.size());
  std::atomic<uint64_t> &place = g_in_place[hash % kPlaces];
  if (place.load(std::memory_order_relaxed) == hash) return true;
  if (!leads_to_machine(directory, room)) return false;
  place.store(hash, std::memory_order_relaxed);
  return true;
}

}  // namespace

string_view recorded_name(string_view name, FileType type, PathBuffer &room) {
  const NameHasher &hasher = g_session.hasher;
  if (!hasher.is_on()) return name;
  // Without a type it is the name of no file, and nothing of it is kept.
  if (type != FileType::kNone && NameHasher::is_public(name) && !is_in_place(name, room)) type = FileType::kNone;
  Writer hashed(room.data(), kPathBytes);
  hasher.write_file(hashed, name, type);
  return hashed.view();
}

}  // namespace tailrace
