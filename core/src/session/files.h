// Which file a descriptor stands for. A table of this process's descriptors, filled when one is opened or, for what
// came from elsewhere (inherited, received, opened behind our back), at its first use; emptied by every call that
// closes one.
//
// What holds:
// - A lookup takes no lock: the entry is one word, the slot it names is never unmapped.
// - Slots are changed under the table lock, and recycled; their hash is read once and checked again before their name
// is used.
// - An entry is emptied BEFORE the descriptor is really closed: between the kernel's close and ours another thread may
// get the number.
#pragma once

#include "format/journal.h"
#include "session/path_buffer.h"
#include "session/sockets.h"

namespace tailrace {

constexpr uint32_t kMaxTrackedFd = 1 << 20;

// An open file description (open(2)): what dup'd descriptors share.
struct OpenFile {
  std::atomic<uint64_t> hash;  // fhash; 0 while free
  std::atomic<int64_t> position;
  // The fork generation in which the position was known to be ours alone; another process may have moved it since.
  std::atomic<uint32_t> own_since;
  uint32_t references;
  FileIdentity identity;
  bool append;
  std::atomic<Messages> messages;
  uint32_t path_bytes;
  char *path;
  // The stream over it, and how many bytes of its buffers are accounted for (hooks/stream.h).
  void *stream;
  int64_t stream_unread;
  int64_t stream_unwritten;
  int64_t stream_pushed;
  bool translates;  // fopen's ",ccs=": what is written is not what the locale makes of it
  uint32_t next_free;
};

// A file with its name, as a copy.
struct NamedFile {
  uint64_t hash = 0;
  FileIdentity identity;
  uint32_t path_bytes = 0;
  PathBuffer buffer;
  char *const path = buffer.data();  // kPathBytes of it

  string_view name() const { return {path, path_bytes}; }
};

// The file of a descriptor; resolves it when needed. Null when it isn't open or there is no memory.
OpenFile *file_of(int fd);
// The same, without resolving.
OpenFile *known_file_of(int fd);

// The descriptor was just opened with `flags` (open(2)): its position is ours. `path` as given, for when /proc can't
// say. What it stands for goes to `name`. False when it can't be told.
bool file_opened(int fd, int flags, const char *path, NamedFile &name);
// The socket was bound or connected: it, and all its duplicates, have another name now (session/sockets.h).
void socket_changed(int fd, const struct sockaddr *target, socklen_t target_bytes);
// The name of a datagram socket for a message to or from `other`. False when it is none.
bool name_message(OpenFile *socket, const struct sockaddr *other, socklen_t other_bytes, NamedFile &out);
// newfd is a duplicate of oldfd; what newfd was is forgotten.
void file_duplicated(int oldfd, int newfd);
// Before close(2). What the descriptor stood for, if it was known, goes to `out`, so that the call can still name it.
void forget_file(int fd);
bool take_file(int fd, NamedFile &out);
void forget_files(unsigned first, unsigned last);

// The name of what a descriptor stands for now; false where it stands for nothing.
bool name_open_file(int fd, NamedFile &out);
// Copies the name and identity of `file` if it still is the file of `hash`. Returns the path's length, or -1.
long copy_name(OpenFile *file, uint64_t hash, char *path, size_t size, FileIdentity &identity);

// Every file's position may be moved by another process from now on.
extern std::atomic<uint32_t> g_fork_generation;

inline bool position_is_own(const OpenFile *f) {
  return f->own_since.load(std::memory_order_relaxed) == g_fork_generation.load(std::memory_order_relaxed) &&
         !f->append;
}
inline bool is_seekable(const OpenFile *f) {
  return f->identity.type == FileType::kRegular || f->identity.type == FileType::kBlock;
}

// Calls visit(file) for every open file that has a stream.
void each_stream(void (*visit)(OpenFile *));

enum class Look { kNot, kFollow, kNoFollow };
// The memory at `text` can be read as a path (the kernel looks, so that a bad pointer is EFAULT there and no crash
// here).
bool reads_as_string(const char *text);
// The same after a call that failed with `error`: most errors come after the kernel has read the path, and cost no
// look.
bool reads_as_string_after(const char *text, int error);
// Makes the path absolute (by dirfd or the working directory) and, unless told not to, looks the file up.
void name_file(int dirfd, const char *path, Look look, NamedFile &out);
// The same as the kernel names it, links resolved: what an open of it gets.
void name_file_as_opened(const char *path, NamedFile &out);
// The same where the caller knows what the file is.
void name_file_as(int dirfd, const char *path, const FileIdentity &identity, NamedFile &out);

}  // namespace tailrace
