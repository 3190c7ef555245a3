// See session/files.h.
#include "session/files.h"

#include <errno.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <new>

#include "base/arena.h"
#include "base/sys.h"
#include "session/session.h"

namespace tailrace {

std::atomic<uint32_t> g_fork_generation{1};

namespace {

constexpr uint32_t kChunk = 1024;  // entries and slots come in chunks, so that neither ever moves
std::atomic<std::atomic<uint32_t> *> g_entries[kMaxTrackedFd / kChunk];
OpenFile *g_slots[kMaxTrackedFd / kChunk];
uint32_t g_slot_count = 1;  // slot 0 means none
uint32_t g_free_slot = 0;

OpenFile *slot_at(uint32_t i) { return &g_slots[i / kChunk][i % kChunk]; }

std::atomic<uint32_t> *entry_of(int fd) {
  if (fd < 0 || static_cast<uint32_t>(fd) >= kMaxTrackedFd) return nullptr;
  std::atomic<uint32_t> *chunk = g_entries[static_cast<uint32_t>(fd) / kChunk].load(std::memory_order_acquire);
  return chunk ? chunk + static_cast<uint32_t>(fd) % kChunk : nullptr;
}

// Table lock held, here and below.
std::atomic<uint32_t> *make_entry(int fd) {
  if (fd < 0 || static_cast<uint32_t>(fd) >= kMaxTrackedFd) return nullptr;
  if (auto *e = entry_of(fd)) return e;
  auto *chunk = static_cast<std::atomic<uint32_t> *>(arena_allocate(kChunk * sizeof(std::atomic<uint32_t>)));
  if (!chunk) return nullptr;
  g_entries[static_cast<uint32_t>(fd) / kChunk].store(chunk, std::memory_order_release);
  return entry_of(fd);
}

uint32_t take_slot() {
  if (g_free_slot) {
    uint32_t i = g_free_slot;
    g_free_slot = slot_at(i)->next_free;
    return i;
  }
  if (g_slot_count >= kMaxTrackedFd) return 0;
  if (!g_slots[g_slot_count / kChunk]) {
    auto *chunk = static_cast<OpenFile *>(sys::allocate_pages(kChunk * sizeof(OpenFile)));
    if (!chunk) return 0;
    g_slots[g_slot_count / kChunk] = chunk;
  }
  return g_slot_count++;
}

void release_slot(uint32_t i) {
  OpenFile *f = slot_at(i);
  if (--f->references) return;
  f->hash.store(0, std::memory_order_relaxed);
  f->stream = nullptr;
  if (f->path) pool_give(f->path, f->path_bytes);
  f->path = nullptr;
  f->next_free = g_free_slot;
  g_free_slot = i;
}

void empty_entry(std::atomic<uint32_t> *entry) {
  if (uint32_t i = entry->exchange(0, std::memory_order_acq_rel)) release_slot(i);
}

FileType type_of_mode(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return FileType::kRegular;
    case S_IFDIR: return FileType::kDirectory;
    case S_IFLNK: return FileType::kLink;
    case S_IFCHR: return FileType::kCharacter;
    case S_IFBLK: return FileType::kBlock;
    case S_IFIFO: return FileType::kFifo;
    case S_IFSOCK: return FileType::kSocket;
    default: return FileType::kAnonymous;
  }
}

constexpr unsigned kIdentityMask = STATX_TYPE | STATX_INO | STATX_BTIME | STATX_NLINK;

FileIdentity identity_of(const struct statx &s) {
  FileIdentity id;
  id.type = type_of_mode(s.stx_mode);
  id.dev = static_cast<uint64_t>(s.stx_dev_major) << 32 | s.stx_dev_minor;
  id.ino = s.stx_ino;
  if (s.stx_mask & STATX_BTIME) id.btime_ns = s.stx_btime.tv_sec * 1000000000LL + s.stx_btime.tv_nsec;
  return id;
}

// The kernel's name of an open file or, without /proc, the path as given.
size_t path_of_fd(int fd, bool unlinked, const char *given, char *path, size_t size) {
  char link[48];
  Writer w(link, sizeof link);
  // Threads with descriptor tables of their own (clone without CLONE_FILES) would need thread-self, at 1.5 times the cost.
  w << "/proc/self/fd/";
  w.number(fd);
  long n = sys::readlink(w.c_str(), path, size);
  if (n <= 0 && given) {
    n = static_cast<long>(strnlen(given, size));
    memcpy(path, given, static_cast<size_t>(n));
  }
  constexpr string_view kDeleted = " (deleted)";
  auto bytes = n > 0 ? static_cast<size_t>(n) : 0;
  if (unlinked && bytes > kDeleted.size() && string_view(path + bytes - kDeleted.size(), kDeleted.size()) == kDeleted) {
    bytes -= kDeleted.size();
  }
  return bytes;
}

constexpr string_view kQueuePrefix = "mqueue:";

// A message queue is a file "/name" at the top of a file system of its own. Messages have no offset in it, and receiving
// one removes it.
void tell_queue(int fd, NamedFile &name) {
  bool at_top = name.path_bytes > 1 && name.path[0] == '/' &&
                slice(name.name(), 1, name.path_bytes - 1).find('/') == string_view::npos;
  if (!at_top || name.identity.type != FileType::kRegular) return;
  constexpr long kMagic = 0x19800202;
  struct statfs s;
  if (sys::call(SYS_fstatfs, fd, sys::pointer(&s)) < 0 || s.f_type != kMagic) return;
  memmove(name.path + kQueuePrefix.size(), name.path, name.path_bytes);
  memcpy(name.path, kQueuePrefix.data(), kQueuePrefix.size());
  name.path_bytes += static_cast<uint32_t>(kQueuePrefix.size());
  name.identity.type = FileType::kFifo;
}

// The identity of an open descriptor's file, by the kernel.
struct Found {
  bool ok = false;
  Messages messages = Messages::kNone;
};

Found look_up(int fd, const char *given, const struct sockaddr *target, socklen_t target_bytes, NamedFile &name) {
  Found found;
  name.hash = 0;
  struct statx s;
  if (fd < 0 || sys::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kIdentityMask, &s) < 0) return found;
  name.identity = identity_of(s);
  Writer w(name.path, kPathBytes);
  if (name.identity.type == FileType::kSocket) {
    found.messages = write_socket_name(w, fd, name.identity.ino, target, target_bytes);
  }
  name.path_bytes = static_cast<uint32_t>(w.size());
  if (!name.path_bytes) {
    size_t room = kPathBytes - kQueuePrefix.size();
    name.path_bytes = static_cast<uint32_t>(path_of_fd(fd, s.stx_nlink == 0, given, name.path, room));
    tell_queue(fd, name);
  }
  name.hash = file_hash(name.name(), name.identity);
  found.ok = true;
  return found;
}

// Table lock held.
void set_path(OpenFile *f, const NamedFile &name) {
  if (f->path) pool_give(f->path, f->path_bytes);
  size_t n = name.path_bytes;
  f->path = static_cast<char *>(pool_take(n ? n : 1));
  f->path_bytes = static_cast<uint32_t>(f->path ? n : 0);
  if (f->path) memcpy(f->path, name.path, n);
}

// Looks the descriptor up with the kernel, puts it into the table, and leaves its name in `name`.
OpenFile *resolve(int fd, int flags, bool own_position, const char *given, NamedFile &name) {
  Found found = look_up(fd, given, nullptr, 0, name);
  if (!found.ok) return nullptr;

  Locked lock(g_session.wiped->table);
  auto *entry = make_entry(fd);
  uint32_t i = entry ? take_slot() : 0;
  if (!i) return nullptr;
  OpenFile *f = slot_at(i);
  set_path(f, name);
  f->identity = name.identity;
  f->messages = found.messages;
  f->references = 1;
  f->append = (flags & O_APPEND) != 0;
  f->position.store(0, std::memory_order_relaxed);
  f->own_since.store(own_position ? g_fork_generation.load() : 0, std::memory_order_relaxed);
  f->stream = nullptr;
  f->stream_pushed = 0;
  f->translates = false;
  f->hash.store(name.hash, std::memory_order_release);
  uint32_t old = entry->exchange(i, std::memory_order_acq_rel);
  if (old) release_slot(old);
  return f;
}

}  // namespace

OpenFile *known_file_of(int fd) {
  auto *entry = entry_of(fd);
  uint32_t i = entry ? entry->load(std::memory_order_acquire) : 0;
  return i ? slot_at(i) : nullptr;
}

OpenFile *file_of(int fd) {
  if (OpenFile *f = known_file_of(fd)) return f;
  NamedFile name;
  return resolve(fd, 0, false, nullptr, name);
}

bool file_opened(int fd, int flags, const char *path, NamedFile &name) {
  if (resolve(fd, flags, true, path, name)) return true;
  forget_file(fd);
  return false;
}

void socket_changed(int fd, const struct sockaddr *target, socklen_t target_bytes) {
  NamedFile name;
  if (!known_file_of(fd)) resolve(fd, 0, false, nullptr, name);
  Found found = look_up(fd, nullptr, target, target_bytes, name);
  if (!found.ok) return;
  Locked lock(g_session.wiped->table);
  auto *entry = entry_of(fd);
  uint32_t i = entry ? entry->load(std::memory_order_acquire) : 0;
  if (!i) return;
  OpenFile *f = slot_at(i);
  if (f->identity.ino != name.identity.ino || f->identity.type != FileType::kSocket) return;
  set_path(f, name);
  f->messages = found.messages;
  f->hash.store(name.hash, std::memory_order_release);
}

bool name_message(OpenFile *socket, const struct sockaddr *other, socklen_t other_bytes, NamedFile &out) {
  if (socket->messages == Messages::kNone) return false;
  PathBuffer own;
  long n = copy_name(socket, socket->hash.load(std::memory_order_relaxed), own.data(), kPathBytes, out.identity);
  Writer w(out.path, kPathBytes);
  if (n < 0 || !write_message_name(w, {own.data(), static_cast<size_t>(n)}, other, other_bytes)) return false;
  out.path_bytes = static_cast<uint32_t>(w.size());
  out.hash = file_hash(out.name(), out.identity);
  return true;
}

void file_duplicated(int oldfd, int newfd) {
  if (oldfd == newfd) return;
  Locked lock(g_session.wiped->table);
  auto *from = entry_of(oldfd);
  uint32_t i = from ? from->load(std::memory_order_acquire) : 0;
  auto *to = i ? make_entry(newfd) : entry_of(newfd);
  if (!to) return;
  empty_entry(to);
  if (!i) return;
  ++slot_at(i)->references;
  to->store(i, std::memory_order_release);
}

void forget_file(int fd) {
  if (!known_file_of(fd)) return;
  Locked lock(g_session.wiped->table);
  if (auto *entry = entry_of(fd)) empty_entry(entry);
}

bool take_file(int fd, NamedFile &out) {
  if (!known_file_of(fd)) return false;
  Locked lock(g_session.wiped->table);
  auto *entry = entry_of(fd);
  uint32_t i = entry ? entry->load(std::memory_order_acquire) : 0;
  if (!i) return false;
  OpenFile *f = slot_at(i);
  out.hash = f->hash.load(std::memory_order_relaxed);
  out.identity = f->identity;
  out.path_bytes = f->path_bytes;
  memcpy(out.path, f->path, f->path_bytes);
  empty_entry(entry);
  return true;
}

void forget_files(unsigned first, unsigned last) {
  Locked lock(g_session.wiped->table);
  if (last >= kMaxTrackedFd) last = kMaxTrackedFd - 1;
  for (unsigned fd = first; fd <= last;) {
    auto *entry = entry_of(static_cast<int>(fd));
    if (!entry) {
      fd = (fd / kChunk + 1) * kChunk;
      continue;
    }
    empty_entry(entry);
    ++fd;
  }
}

long copy_name(OpenFile *file, uint64_t hash, char *path, size_t size, FileIdentity &identity) {
  Locked lock(g_session.wiped->table);
  if (file->hash.load(std::memory_order_relaxed) != hash || file->path_bytes > size) return -1;
  memcpy(path, file->path, file->path_bytes);
  identity = file->identity;
  return file->path_bytes;
}

bool name_open_file(int fd, NamedFile &out) {
  OpenFile *f = file_of(fd);
  out.hash = f ? f->hash.load(std::memory_order_relaxed) : 0;
  long bytes = f ? copy_name(f, out.hash, out.path, kPathBytes, out.identity) : -1;
  if (bytes < 0) return false;
  out.path_bytes = static_cast<uint32_t>(bytes);
  return true;
}

void each_stream(void (*visit)(OpenFile *)) {
  for (uint32_t i = 1; i < g_slot_count; ++i) {
    OpenFile *f = slot_at(i);
    if (f->hash.load(std::memory_order_relaxed) && f->stream) visit(f);
  }
}

bool reads_as_string(const char *text) {
  return text && sys::call(SYS_faccessat, AT_FDCWD, sys::pointer(text), 0) != -EFAULT;
}

bool reads_as_string_after(const char *text, int error) {
  switch (error) {
    case 0:
    case EACCES:
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR: return text != nullptr;
    case EFAULT: return false;
    default: return reads_as_string(text);
  }
}

// Absolute, but otherwise as given: links are resolved by the kernel, and only for open files.
static void make_absolute(int dirfd, const char *path, NamedFile &out) {
  Writer w(out.path, kPathBytes);
  size_t n = strnlen(path, kPathBytes);
  if (n == 0 || path[0] != '/') {
    long bytes = -1;
    if (dirfd == AT_FDCWD) {
      bytes = sys::getcwd(out.path, kPathBytes) - 1;
    } else if (OpenFile *dir = file_of(dirfd)) {
      FileIdentity ignored;
      bytes = copy_name(dir, dir->hash.load(std::memory_order_relaxed), out.path, kPathBytes, ignored);
    }
    if (bytes > 0) w.extend(static_cast<size_t>(bytes));
    while (starts_with({path, n}, "./")) path += 2, n -= 2;
    bool here = n == 0 || (n == 1 && path[0] == '.');
    if (here) n = 0;
    if (!here && (bytes <= 0 || out.path[bytes - 1] != '/')) w << '/';
  }
  w << string_view(path, n);
  if (w.overflowed()) {
    w.truncate(0);
    w << string_view(path, n);
  }
  out.path_bytes = static_cast<uint32_t>(w.size());
}

void name_file_as(int dirfd, const char *path, const FileIdentity &identity, NamedFile &out) {
  make_absolute(dirfd, path, out);
  out.identity = identity;
  out.hash = file_hash(out.name(), identity);
}

void name_file(int dirfd, const char *path, Lookup lookup, NamedFile &out) {
  struct statx s;
  FileIdentity identity;
  int flags = AT_STATX_DONT_SYNC | (lookup == Lookup::kNoFollow ? AT_SYMLINK_NOFOLLOW : 0);
  if (lookup != Lookup::kNot && sys::statx(dirfd, path, flags, kIdentityMask, &s) == 0) identity = identity_of(s);
  name_file_as(dirfd, path, identity, out);
}

void name_file_as_opened(const char *path, NamedFile &out) {
  int fd = sys::open(path, O_PATH);
  Found found;
  if (fd >= 0) {
    found = look_up(fd, path, nullptr, 0, out);
    sys::close(fd);
  }
  if (!found.ok) name_file(AT_FDCWD, path, Lookup::kFollow, out);
}

}  // namespace tailrace
