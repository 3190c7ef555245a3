// The table from descriptors to files. An entry is filled when a descriptor is opened or, where no hook saw that
// (inherited, received, opened by a raw system call), at its first use; every call that closes a descriptor empties it.
//
//   g_entries[fd] ──► slot (OpenFile): references, position, name      free slots: a stack, g_free ─► slot ─► slot ...
//   g_entries[dup] ─┘
//
// Invariants:
// - Nothing here waits: opening and closing take no lock and so need no signals blocked, which would be four system
//   calls for each file. Only more memory is made under the table lock.
// - An entry that names a slot is a reference to it. Who takes the number out of the entry, in one exchange, has the
//   reference; who drops the last one returns the slot. A thread or handler that is stopped in between, or leaves by
//   longjmp, costs at most the slot.
// - Slots are never unmapped, but recycled. A reader reads the hash once; copy_name() checks it, and that the slot was
//   not recycled meanwhile, before the name is used.
// - An entry is emptied BEFORE the descriptor is closed: another thread may get the number as soon as the kernel has
//   closed it.
//
// Rejected: a lock, whose blocked signals took 470 of the 2,400 ns of an open and its close; one that a signal handler
// gives up when its own thread holds it, since a handler that leaves by longjmp leaves it held.
#pragma once

#include <sys/stat.h>

#include "format/journal.h"
#include "format/sockets.h"
#include "session/opened_name.h"
#include "session/path_buffer.h"

namespace tailrace {

constexpr uint32_t kMaxTrackedFd = 1 << 20;

// An identity that one thread may read while another one replaces it.
class SharedIdentity {
 public:
  FileType type() const { return type_.load(std::memory_order_relaxed); }
  uint64_t ino() const { return ino_.load(std::memory_order_relaxed); }
  FileIdentity load() const {
    return {type(), dev_.load(std::memory_order_relaxed), ino(), btime_ns_.load(std::memory_order_relaxed),
            block_bytes_.load(std::memory_order_relaxed)};
  }
  void store(const FileIdentity &identity) {
    type_.store(identity.type, std::memory_order_relaxed);
    block_bytes_.store(identity.block_bytes, std::memory_order_relaxed);
    dev_.store(identity.dev, std::memory_order_relaxed);
    ino_.store(identity.ino, std::memory_order_relaxed);
    btime_ns_.store(identity.btime_ns, std::memory_order_relaxed);
  }

 private:
  std::atomic<FileType> type_;
  std::atomic<uint32_t> block_bytes_;
  std::atomic<uint64_t> dev_;
  std::atomic<uint64_t> ino_;
  std::atomic<int64_t> btime_ns_;
};

// What the program has epoll(7) give back with an event of a descriptor of this instance: always that descriptor
// itself, or something else.
enum class EpollData : uint8_t { kNone, kDescriptor, kOther };

constexpr size_t kNameWords = 14;  // of a name that needs no memory of its own: 112 bytes

// The records of a stream's bytes that wait in its buffer for the flush, which tells their offsets: the last one, from
// which each leads to the one before (hooks/stream.cc).
struct Unplaced {
  Slot *last;
  SegmentHeader *segment;
  uint32_t epoch;      // in another one of the segment the records are gone
  int pid;             // a forked child has neither
  int64_t flushed_to;  // where the stream's last flush ended; -1: not known
  int64_t end_before;  // end_of_writing() before all streams are flushed; -1: it was not asked
};

// An open file description (open(2)): what dup'd descriptors share.
struct OpenFile {
  std::atomic<uint64_t> hash;  // fhash; 0 while free
  // Where the next byte goes, while only this process has it; else where its last call left it.
  std::atomic<int64_t> position;
  // The fork generation in which only this process had the position; another process may have moved it since.
  std::atomic<uint32_t> own_since;
  std::atomic<uint32_t> references;
  std::atomic<uint32_t> generation;  // another one after the slot was recycled or its name replaced; odd meanwhile
  SharedIdentity identity;
  bool append;
  std::atomic<Messages> messages;
  std::atomic<EpollData> epoll_data;
  // The stream over it, and how many bytes of its buffers are accounted for (hooks/stream.h).
  std::atomic<void *> stream;
  int64_t stream_unread;
  int64_t stream_unwritten;
  int64_t stream_pushed;
  int64_t stream_read_to;  // where in the file its read buffer ends; -1: not known
  Unplaced unplaced;
  bool translates;  // fopen's ",ccs=": what is written is not what the locale makes of it
  std::atomic<uint32_t> next_free;
  // The name, as words: they are copied one by one, since another thread may replace them.
  std::atomic<uint32_t> name_bytes;
  uint32_t room_words;           // of `room`
  std::atomic<uint64_t *> room;  // where a name lies that was too long for `name`; kept for the next file
  uint64_t name[kNameWords];
};

// A file with its name, as a copy.
struct NamedFile {
  NamedFile() = default;
  explicit NamedFile(Thread *thread) : buffer(thread) {}

  uint64_t hash = 0;
  FileIdentity identity;
  uint32_t path_bytes = 0;
  PathBuffer buffer;
  char *const path = buffer.data();  // kPathBytes of it

  string_view name() const { return {path, path_bytes}; }
};

// The file of a descriptor, resolved when needed. Null when it is not open, or without memory.
OpenFile *file_of(int fd);
// The same, without resolving.
OpenFile *known_file_of(int fd);

// To be called after the descriptor was opened. Its path as given is also the fallback where /proc does not tell.
// Writes the file to `name`; false when it is unknown.
bool file_opened(int fd, const Opening &opening, NamedFile &name);
// To be called after the socket was bound or connected, which changes its name and that of all its duplicates
// (format/sockets.h).
void socket_changed(int fd, const struct sockaddr *target, socklen_t target_bytes);
// The name of a datagram socket for a message to or from `other`. False when it is none.
bool name_message(OpenFile *socket, const struct sockaddr *other, socklen_t other_bytes, NamedFile &out);
// The descriptor was given to another process, which may move its position from now on.
void file_shared(int fd);
// newfd is now a duplicate of oldfd.
void file_duplicated(int oldfd, int newfd);
// Before close(2): empties the entry. take_file() writes the file, if it was known, to `out`, for the record of the
// close.
void forget_file(int fd);
bool take_file(int fd, NamedFile &out);
void forget_files(unsigned first, unsigned last);

// The name of the descriptor's file; false without one.
bool name_open_file(int fd, NamedFile &out);
// The same by the kernel alone, for a task whose descriptors are not those of the table.
bool ask_for_open_file(int fd, NamedFile &out);
// Copies the name and identity of `file` if it still is the file of `hash`. Returns the path's length, or -1.
long copy_name(OpenFile *file, uint64_t hash, char *path, size_t size, FileIdentity &identity);

// Incremented by a fork: from then on another process may move the positions of all open files.
extern std::atomic<uint32_t> g_fork_generation;

// Whether no other process has the open file description.
inline bool is_exclusive(const OpenFile *f) {
  return f->own_since.load(std::memory_order_relaxed) == g_fork_generation.load(std::memory_order_relaxed);
}
inline bool position_is_own(const OpenFile *f) { return is_exclusive(f) && !f->append; }
inline bool is_seekable(FileType type) { return type == FileType::kRegular || type == FileType::kBlock; }
inline bool is_seekable(const OpenFile *f) { return is_seekable(f->identity.type()); }

// The size that the kernel has of an open file, or of the one at `path`; -1 where there is none.
int64_t size_of_file(int fd);
int64_t size_of_file(const char *path);

// Calls visit(file) for every open file that has a stream.
void each_stream(void (*visit)(OpenFile *));

// What statx(2) is asked for: identity_of() and whether the file has a name.
constexpr unsigned kIdentityMask = STATX_TYPE | STATX_INO | STATX_BTIME | STATX_NLINK;

enum class Lookup { kNot, kFollow, kNoFollow };
// Whether the memory at `text` can be read as a path. The kernel reads it, so that a bad pointer is an EFAULT and no
// crash.
bool reads_as_string(const char *text);
// The same after a call that failed with `error`. Most errors come after the kernel has read the path and need no
// check: not for a call with two paths, which may have failed over the other one.
bool reads_as_string_after(const char *text, int error);
// The length of a path that can be read. The kernel reads PATH_MAX bytes at most: behind them there may be nothing.
size_t path_length(const char *path);
// Makes the path absolute (by dirfd or the working directory) and looks the file up, except with kNot.
void name_file(int dirfd, const char *path, Lookup lookup, NamedFile &out);
// The same after stat(2), or lstat with kNoFollow, which has found `found`.
void name_found_file(int dirfd, const char *path, Lookup lookup, const struct stat &found, NamedFile &out);
// The same with links resolved, which is the name that an open of it gets.
void name_file_as_opened(const char *path, NamedFile &out);
// The same where the caller knows the identity.
void name_file_as(int dirfd, const char *path, const FileIdentity &identity, NamedFile &out);

}  // namespace tailrace
