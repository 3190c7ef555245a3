// See session/opened_name.h.
#include "session/opened_name.h"

#include <limits.h>

#include "base/sys.h"
#include "session/files.h"
#include "session/session.h"

namespace tailrace {
namespace {

// A set of hashes that forgets: a new one takes a place of its row, in turn. A row is half a cache line.
template <size_t kRows>
class RecentHashes {
 public:
  bool has(uint64_t hash) const {
    const std::atomic<uint64_t> *row = rows_[hash % kRows];
    bool found = false;
    for (size_t i = 0; i < kPlaces; ++i) found |= row[i].load(std::memory_order_relaxed) == hash;
    return found;
  }
  void add(uint64_t hash) {
    if (has(hash)) return;
    std::atomic<uint64_t> *row = rows_[hash % kRows];
    for (size_t i = kPlaces - 1; i > 0; --i) {
      row[i].store(row[i - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    row[0].store(hash, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kPlaces = 4;
  std::atomic<uint64_t> rows_[kRows][kPlaces];
};

RecentHashes<512> g_names;       // of files with their identity, 16 KiB
RecentHashes<64> g_directories;  // of directories' names
// Part of every hash that is remembered, so that a change forgets all.
std::atomic<uint64_t> g_age{0};

uint64_t aged(uint64_t hash) { return hash + g_age.load(std::memory_order_relaxed) * 0x9E3779B97F4A7C15ULL; }

uint64_t directory_hash(string_view name) { return aged(file_hash(name, FileIdentity{})); }

// The directory that holds `name`, which is absolute.
string_view directory_of(string_view name) {
  size_t slash = name.rfind('/');
  return slash == 0 ? string_view("/") : slice(name, 0, slash);
}

// Appends the parts of `path` to `out`, which holds an absolute directory without a slash at its end (nothing for the
// root). False for a path that only the kernel understands.
bool append_parts(Writer &out, string_view path) {
  size_t at = 0;
  while (at < path.size()) {
    size_t end = path.find('/', at);
    if (end == string_view::npos) end = path.size();
    string_view part = slice(path, at, end - at);
    if (part == "..") return false;
    if (!part.empty() && part != ".") out << '/' << part;
    at = end + 1;
  }
  return !out.overflowed();
}

enum class Base { kUnknown, kExact, kMayBeOld };

// Writes the directory that the path is relative to. The name is empty for the root.
Base write_base(const Opening &opening, Writer &out, char *path) {
  if (opening.path[0] == '/') return Base::kExact;
  long bytes = -1;
  if (opening.dirfd == AT_FDCWD) {
    // The last byte is a zero. A directory outside of the process's root begins with "(unreachable)".
    bytes = sys::getcwd(path, kPathBytes) - 1;
  } else if (OpenFile *directory = known_file_of(opening.dirfd)) {
    FileIdentity ignored;
    bytes = copy_name(directory, directory->hash.load(std::memory_order_relaxed), path, kPathBytes, ignored);
  }
  if (bytes <= 0 || path[0] != '/') return Base::kUnknown;
  if (bytes > 1) out.extend(static_cast<size_t>(bytes));
  return opening.dirfd == AT_FDCWD ? Base::kExact : Base::kMayBeOld;
}

bool is_same(const FileIdentity &a, const FileIdentity &b) {
  return a.dev == b.dev && a.ino == b.ino && a.btime_ns == b.btime_ns && a.type == b.type;
}

// Whether the name, without following a link at its end, leads to the file.
bool leads_to(const char *name, const FileIdentity &identity) {
  struct statx s;
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  return sys::statx(AT_FDCWD, name, kFlags, kIdentityMask, &s) == 0 && is_same(identity_of(s), identity);
}

// An open that fails where the last part is a link, unless that is followed by a slash.
bool refuses_link(string_view path, int flags) {
  constexpr int kNew = O_CREAT | O_EXCL;
  bool refuses = (flags & O_NOFOLLOW) || (flags & kNew) == kNew;
  return refuses && !(flags & O_PATH) && path[path.size() - 1] != '/';
}

}  // namespace

size_t name_without_kernel(const Opening &opening, const FileIdentity &identity, char *path, uint64_t &hash) {
  bool nameless = (opening.flags & O_TMPFILE) == O_TMPFILE;
  string_view given(opening.path ? opening.path : "", opening.path ? path_length(opening.path) : 0);
  if (given.empty() || nameless) return 0;
  Writer out(path, kPathBytes - 1);
  Base base = write_base(opening, out, path);
  size_t base_bytes = out.size();
  if (base == Base::kUnknown || !append_parts(out, given)) return 0;
  if (!out.size()) out << '/';
  hash = recorded_hash(out.view(), identity);
  bool exact = base == Base::kExact;
  if (exact && g_names.has(aged(hash))) return out.size();
  string_view directory = directory_of(out.view());
  // The working directory, and the directory of a descriptor, were named by the kernel.
  bool is_named = directory.size() == (base_bytes ? base_bytes : 1) || g_directories.has(directory_hash(directory));
  if (!is_named) return 0;
  bool is_known = given[0] == '/' && refuses_link(given, opening.flags);
  if (!is_known && !leads_to(out.c_str(), identity)) return 0;
  if (exact) g_names.add(aged(hash));
  return out.size();
}

void remember_name(string_view name, const FileIdentity &identity, uint64_t hash) {
  if (name.empty() || name[0] != '/') return;
  g_names.add(aged(hash));
  g_directories.add(directory_hash(directory_of(name)));
  if (identity.type == FileType::kDirectory) g_directories.add(directory_hash(name));
}

void forget_names() { g_age.fetch_add(1, std::memory_order_relaxed); }

}  // namespace tailrace
