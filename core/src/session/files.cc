// See session/files.h.
#include "session/files.h"

#include <errno.h>
#include <limits.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <new>

#include "base/arena.h"
#include "base/own_memory.h"
#include "base/sys.h"
#include "session/birth_times.h"
#include "session/own_descriptors.h"
#include "session/session.h"

namespace tailrace {

std::atomic<uint32_t> g_fork_generation{1};

namespace {

constexpr uint32_t kChunk = 1024;  // entries and slots come in chunks, so that neither ever moves
std::atomic<std::atomic<uint32_t> *> g_entries[kMaxTrackedFd / kChunk];
OpenFile *g_slots[kMaxTrackedFd / kChunk];
std::atomic<uint32_t> g_slot_room{0};   // slots that have memory
std::atomic<uint32_t> g_slot_count{1};  // slots that were ever taken; slot 0 means none
// The free slot that is taken next, and in the upper half the number of changes: a thread that was stopped between
// reading and exchanging the word must not take a slot that went and came back meanwhile.
std::atomic<uint64_t> g_free{0};
constexpr uint64_t kOneChange = uint64_t{1} << 32;

OpenFile *slot_at(uint32_t i) { return &g_slots[i / kChunk][i % kChunk]; }

std::atomic<uint32_t> *entry_of(int fd) {
  if (fd < 0 || static_cast<uint32_t>(fd) >= kMaxTrackedFd) return nullptr;
  std::atomic<uint32_t> *chunk = g_entries[static_cast<uint32_t>(fd) / kChunk].load(std::memory_order_acquire);
  return chunk ? chunk + static_cast<uint32_t>(fd) % kChunk : nullptr;
}

std::atomic<uint32_t> *make_entry(int fd) {
  if (fd < 0 || static_cast<uint32_t>(fd) >= kMaxTrackedFd) return nullptr;
  if (auto *e = entry_of(fd)) return e;
  Locked lock(g_wiped.table);
  if (auto *e = entry_of(fd)) return e;
  auto *chunk = static_cast<std::atomic<uint32_t> *>(arena_allocate(kChunk * sizeof(std::atomic<uint32_t>)));
  if (!chunk) return nullptr;
  g_entries[static_cast<uint32_t>(fd) / kChunk].store(chunk, std::memory_order_release);
  return entry_of(fd);
}

// Memory for more slots; false when there is none.
bool add_slots() {
  Locked lock(g_wiped.table);
  uint32_t room = g_slot_room.load(std::memory_order_relaxed);
  if (g_slot_count.load(std::memory_order_relaxed) < room) return true;
  if (room >= kMaxTrackedFd) return false;
  auto *chunk = static_cast<OpenFile *>(own_memory::pages(kChunk * sizeof(OpenFile)));
  if (!chunk) return false;
  g_slots[room / kChunk] = chunk;
  g_slot_room.store(room + kChunk, std::memory_order_release);
  return true;
}

uint32_t take_new_slot() {
  uint32_t i = g_slot_count.load(std::memory_order_relaxed);
  for (;;) {
    if (i >= g_slot_room.load(std::memory_order_acquire)) {
      if (!add_slots()) return 0;
      i = g_slot_count.load(std::memory_order_relaxed);
    } else if (g_slot_count.compare_exchange_weak(i, i + 1, std::memory_order_relaxed)) {
      return i;
    }
  }
}

uint32_t take_slot() {
  uint64_t top = g_free.load(std::memory_order_acquire);
  while (auto i = static_cast<uint32_t>(top)) {
    uint64_t next = slot_at(i)->next_free.load(std::memory_order_relaxed);
    uint64_t changed = ((top & ~(kOneChange - 1)) + kOneChange) | next;
    if (g_free.compare_exchange_weak(top, changed, std::memory_order_acquire)) return i;
  }
  return take_new_slot();
}

void drop_reference(uint32_t i) {
  OpenFile *f = slot_at(i);
  if (f->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  f->hash.store(0, std::memory_order_relaxed);
  f->generation.fetch_add(2, std::memory_order_relaxed);
  f->stream.store(nullptr, std::memory_order_relaxed);
  uint64_t top = g_free.load(std::memory_order_relaxed), changed;
  do {
    f->next_free.store(static_cast<uint32_t>(top), std::memory_order_relaxed);
    changed = ((top & ~(kOneChange - 1)) + kOneChange) | i;
  } while (!g_free.compare_exchange_weak(top, changed, std::memory_order_release, std::memory_order_relaxed));
}

// Takes a reference to the slot that `entry` names, if it still does then. Returns the slot's number, or 0.
uint32_t share_slot(const std::atomic<uint32_t> *entry) {
  uint32_t i = entry ? entry->load(std::memory_order_acquire) : 0;
  if (!i) return 0;
  auto &references = slot_at(i)->references;
  uint32_t n = references.load(std::memory_order_relaxed);
  while (n && !references.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  if (!n) return 0;
  if (entry->load(std::memory_order_acquire) == i) return i;
  drop_reference(i);
  return 0;
}

void empty_entry(std::atomic<uint32_t> *entry) {
  if (!entry->load(std::memory_order_relaxed)) return;
  if (uint32_t i = entry->exchange(0, std::memory_order_acq_rel)) drop_reference(i);
}

constexpr size_t words_of(size_t bytes) { return (bytes + 7) / 8; }

bool has_room(const OpenFile *f, size_t bytes) {
  return words_of(bytes) <= kNameWords || words_of(bytes) <= f->room_words;
}

// Table lock held. Without memory the old room stays.
void make_room(OpenFile *f, size_t bytes) {
  size_t words = words_of(bytes);
  auto *room = static_cast<uint64_t *>(pool_take(words * 8));
  if (!room) return;
  if (uint64_t *old = f->room.load(std::memory_order_relaxed)) pool_give(old, f->room_words * 8);
  f->room_words = static_cast<uint32_t>(words);
  f->room.store(room, std::memory_order_relaxed);
}

void copy_words(uint64_t *to, const char *from, size_t bytes) {
  for (; bytes; ++to) {
    size_t n = bytes < 8 ? bytes : 8;
    uint64_t word = 0;
    memcpy(&word, from, n);
    __atomic_store_n(to, word, __ATOMIC_RELAXED);
    from += n;
    bytes -= n;
  }
}

void copy_words(char *to, const uint64_t *from, size_t bytes) {
  for (; bytes; ++from) {
    size_t n = bytes < 8 ? bytes : 8;
    uint64_t word = __atomic_load_n(from, __ATOMIC_RELAXED);
    memcpy(to, &word, n);
    to += n;
    bytes -= n;
  }
}

// The kernel's name of an open file or, without /proc, the path as given.
size_t path_of_fd(int fd, bool unlinked, const char *given, char *path, size_t size) {
  char link[48];
  Writer w(link, sizeof link);
  // Threads with descriptor tables of their own (clone without CLONE_FILES) would need thread-self, at 1.5 times the
  // cost.
  w << "/proc/self/fd/";
  w.number(fd);
  long n = sys::readlink(w.c_str(), path, size);
  if (n <= 0 && given) {
    n = static_cast<long>(path_length(given));
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

// A message queue is a file "/name" at the top of a file system of its own. Messages have no offset in it, and
// receiving one removes it.
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

// Of a descriptor that no hook saw opened.
constexpr Opening kUnseen{AT_FDCWD, nullptr, 0};

// The identity of an open descriptor's file, by the kernel.
struct Found {
  bool ok = false;
  Messages messages = Messages::kNone;
};

Found look_up(int fd, const Opening &opening, const struct sockaddr *target, socklen_t target_bytes, NamedFile &name) {
  Found found;
  name.hash = 0;
  struct statx s;
  if (fd < 0 || sys::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kIdentityMask, &s) < 0) return found;
  name.identity = identity_of(s);
  Writer w(name.path, kPathBytes);
  if (name.identity.type == FileType::kSocket) {
    found.messages = write_socket_name(w, fd, name.identity.ino, target, target_bytes);
  }
  found.ok = true;
  name.path_bytes = static_cast<uint32_t>(w.size());
  if (name.path_bytes) {
    name.hash = recorded_hash(name.name(), name.identity);
    return found;
  }
  bool unlinked = s.stx_nlink == 0;
  if (!unlinked) {
    name.path_bytes = static_cast<uint32_t>(name_without_kernel(opening, name.identity, name.path, name.hash));
    if (name.path_bytes) return found;
  }
  size_t room = kPathBytes - kQueuePrefix.size();
  name.path_bytes = static_cast<uint32_t>(path_of_fd(fd, unlinked, opening.path, name.path, room));
  tell_queue(fd, name);
  name.hash = recorded_hash(name.name(), name.identity);
  if (!unlinked) remember_name(name.name(), name.identity, name.hash);
  return found;
}

// The slot's name and identity; its hash follows, by the caller.
void set_name(OpenFile *f, const NamedFile &name) {
  // A reader that has copied anything of this name also sees that the generation is another one (copy_name).
  std::atomic_thread_fence(std::memory_order_release);
  size_t bytes = has_room(f, name.path_bytes) ? name.path_bytes : 0;
  copy_words(words_of(bytes) <= kNameWords ? f->name : f->room.load(std::memory_order_relaxed), name.path, bytes);
  f->identity.store(name.identity);
  // After the room, which a reader must not take for a larger one.
  f->name_bytes.store(static_cast<uint32_t>(bytes), std::memory_order_release);
}

// Looks the descriptor up with the kernel, puts it into the table, and leaves its name in `name`.
OpenFile *resolve(int fd, const Opening &opening, bool own_position, NamedFile &name) {
  Found found = look_up(fd, opening, nullptr, 0, name);
  if (!found.ok) return nullptr;

  auto *entry = make_entry(fd);
  uint32_t i = entry ? take_slot() : 0;
  if (!i) return nullptr;
  OpenFile *f = slot_at(i);
  if (!has_room(f, name.path_bytes)) {
    Locked lock(g_wiped.table);
    make_room(f, name.path_bytes);
  }
  set_name(f, name);
  f->messages = found.messages;
  f->epoll_data.store(EpollData::kNone, std::memory_order_relaxed);
  int flags = opening.flags;
  if (!own_position && is_seekable(f)) {
    long status = sys::call(SYS_fcntl, fd, F_GETFL);
    flags = status < 0 ? 0 : static_cast<int>(status);
  }
  f->append = (flags & O_APPEND) != 0;
  f->position.store(0, std::memory_order_relaxed);
  f->own_since.store(own_position ? g_fork_generation.load() : 0, std::memory_order_relaxed);
  f->stream.store(nullptr, std::memory_order_relaxed);
  f->stream_pushed = 0;
  f->stream_read_to = -1;
  f->unplaced = {nullptr, nullptr, 0, 0, -1, -1};
  f->translates = false;
  f->references.store(1, std::memory_order_relaxed);
  f->hash.store(name.hash, std::memory_order_release);
  uint32_t old = entry->exchange(i, std::memory_order_acq_rel);
  if (old) drop_reference(old);
  return f;
}

// Of a slot that is in use. One thread at a time, and to its end: a reader of a name that stayed half-written would
// never get it.
void rename_socket(OpenFile *f, const NamedFile &name, const Found &found) {
  Locked lock(g_wiped.table);
  f->generation.fetch_add(1, std::memory_order_relaxed);
  if (!has_room(f, name.path_bytes)) make_room(f, name.path_bytes);
  set_name(f, name);
  f->messages = found.messages;
  f->hash.store(name.hash, std::memory_order_release);
  f->generation.fetch_add(1, std::memory_order_release);
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
  return resolve(fd, kUnseen, false, name);
}

bool file_opened(int fd, const Opening &opening, NamedFile &name) {
  if (resolve(fd, opening, true, name)) return true;
  forget_file(fd);
  return false;
}

void socket_changed(int fd, const struct sockaddr *target, socklen_t target_bytes) {
  NamedFile name;
  if (!known_file_of(fd)) resolve(fd, kUnseen, false, name);
  Found found = look_up(fd, kUnseen, target, target_bytes, name);
  if (!found.ok) return;
  uint32_t i = share_slot(entry_of(fd));
  if (!i) return;
  OpenFile *f = slot_at(i);
  if (f->identity.ino() == name.identity.ino && f->identity.type() == FileType::kSocket) rename_socket(f, name, found);
  drop_reference(i);
}

bool name_message(OpenFile *socket, const struct sockaddr *other, socklen_t other_bytes, NamedFile &out) {
  if (socket->messages == Messages::kNone) return false;
  PathBuffer own;
  long n = copy_name(socket, socket->hash.load(std::memory_order_relaxed), own.data(), kPathBytes, out.identity);
  Writer w(out.path, kPathBytes);
  if (n < 0 || !write_message_name(w, {own.data(), static_cast<size_t>(n)}, other, other_bytes)) return false;
  out.path_bytes = static_cast<uint32_t>(w.size());
  out.hash = recorded_hash(out.name(), out.identity);
  return true;
}

void file_shared(int fd) {
  if (OpenFile *f = known_file_of(fd)) f->own_since.store(0, std::memory_order_relaxed);
}

void file_duplicated(int oldfd, int newfd) {
  if (oldfd == newfd) return;
  uint32_t i = share_slot(entry_of(oldfd));
  auto *to = i ? make_entry(newfd) : entry_of(newfd);
  uint32_t old = i;
  if (to) old = to->exchange(i, std::memory_order_acq_rel);
  if (old) drop_reference(old);
}

void forget_file(int fd) {
  if (auto *entry = entry_of(fd)) empty_entry(entry);
}

bool take_file(int fd, NamedFile &out) {
  auto *entry = entry_of(fd);
  if (!entry || !entry->load(std::memory_order_relaxed)) return false;
  uint32_t i = entry->exchange(0, std::memory_order_acq_rel);
  if (!i) return false;
  OpenFile *f = slot_at(i);
  out.hash = f->hash.load(std::memory_order_acquire);
  long bytes = copy_name(f, out.hash, out.path, kPathBytes, out.identity);
  out.path_bytes = bytes > 0 ? static_cast<uint32_t>(bytes) : 0;
  drop_reference(i);
  return bytes >= 0;
}

void forget_files(unsigned first, unsigned last) {
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
  uint32_t generation = file->generation.load(std::memory_order_acquire);
  if ((generation & 1) || file->hash.load(std::memory_order_acquire) != hash) return -1;
  size_t bytes = file->name_bytes.load(std::memory_order_acquire);
  if (bytes > size) return -1;
  const uint64_t *words = words_of(bytes) <= kNameWords ? file->name : file->room.load(std::memory_order_relaxed);
  copy_words(path, words, bytes);
  identity = file->identity.load();
  // Whoever has begun to replace what was copied has changed the generation before (set_name).
  std::atomic_thread_fence(std::memory_order_acquire);
  bool same = file->generation.load(std::memory_order_relaxed) == generation &&
              file->hash.load(std::memory_order_relaxed) == hash;
  return same ? static_cast<long>(bytes) : -1;
}

bool name_open_file(int fd, NamedFile &out) {
  OpenFile *f = file_of(fd);
  out.hash = f ? f->hash.load(std::memory_order_relaxed) : 0;
  long bytes = f ? copy_name(f, out.hash, out.path, kPathBytes, out.identity) : -1;
  if (bytes < 0) return false;
  out.path_bytes = static_cast<uint32_t>(bytes);
  return true;
}

static int64_t size_by(int dirfd, const char *path, int flags) {
  struct statx s;
  return sys::statx(dirfd, path, flags, STATX_SIZE, &s) == 0 ? static_cast<int64_t>(s.stx_size) : -1;
}

int64_t size_of_file(int fd) { return size_by(fd, "", AT_EMPTY_PATH); }
int64_t size_of_file(const char *path) { return size_by(AT_FDCWD, path, 0); }

bool ask_for_open_file(int fd, NamedFile &out) { return look_up(fd, kUnseen, nullptr, 0, out).ok; }

void each_stream(void (*visit)(OpenFile *)) {
  for (uint32_t i = 1; i < g_slot_count.load(std::memory_order_relaxed); ++i) {
    OpenFile *f = slot_at(i);
    if (f->hash.load(std::memory_order_relaxed) && f->stream.load(std::memory_order_relaxed)) visit(f);
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

size_t path_length(const char *path) { return strnlen(path, PATH_MAX); }

// Absolute, but otherwise as given: links are resolved by the kernel, and only for open files.
static void make_absolute(int dirfd, const char *path, NamedFile &out) {
  Writer w(out.path, kPathBytes);
  size_t n = path_length(path);
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
  out.hash = recorded_hash(out.name(), identity);
}

void name_file(int dirfd, const char *path, Lookup lookup, NamedFile &out) {
  struct statx s;
  FileIdentity identity;
  int flags = AT_STATX_DONT_SYNC | (lookup == Lookup::kNoFollow ? AT_SYMLINK_NOFOLLOW : 0);
  if (lookup != Lookup::kNot && sys::statx(dirfd, path, flags, kIdentityMask, &s) == 0) identity = identity_of(s);
  name_file_as(dirfd, path, identity, out);
}

void name_found_file(int dirfd, const char *path, Lookup lookup, const struct stat &found, NamedFile &out) {
  FileIdentity identity;
  identity.type = type_of_mode(found.st_mode);
  identity.dev = static_cast<uint64_t>(major(found.st_dev)) << 32 | minor(found.st_dev);
  identity.ino = found.st_ino;
  if (identity.type == FileType::kRegular) identity.block_bytes = static_cast<uint32_t>(found.st_blksize);
  if (find_birth_time(found, identity.btime_ns)) return name_file_as(dirfd, path, identity, out);
  name_file(dirfd, path, lookup, out);
  // Another file may have the name by now.
  bool same = out.identity.dev == identity.dev && out.identity.ino == identity.ino;
  if (same) keep_birth_time(found, out.identity.btime_ns);
}

void name_file_as_opened(const char *path, NamedFile &out) {
  // By /proc/self/fd, which is the program's table.
  int fd = must_look_apart() ? -1 : sys::open(path, O_PATH);
  Found found;
  if (fd >= 0) {
    found = look_up(fd, {AT_FDCWD, path, O_PATH}, nullptr, 0, out);
    sys::close(fd);
  }
  if (!found.ok) name_file(AT_FDCWD, path, Lookup::kFollow, out);
}

}  // namespace tailrace
