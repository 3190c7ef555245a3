// What a follower reads of a stopped thread and its process: memory, files behind descriptors and paths, the kernel's
// account. Everything is read from outside, while the thread can't change it; another thread of its process can.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "foreign_journal.h"

namespace tailrace::launcher {

struct SocketAddress {
  struct sockaddr_storage storage;
  socklen_t bytes;

  const struct sockaddr *get() const { return reinterpret_cast<const struct sockaddr *>(&storage); }
};

class Tracee {
 public:
  explicit Tracee(int tid) : tid_(tid) {}

  bool read_memory(uint64_t at, void *to, size_t n) const;
  // A path; none where it can't be read.
  std::optional<std::string> read_path(uint64_t at) const;
  template <class T>
  std::optional<T> read(uint64_t at) const {
    T value;
    return at != 0 && read_memory(at, &value, sizeof value) ? std::optional(value) : std::nullopt;
  }

  // The file of an open descriptor, by the kernel.
  std::optional<FileName> open_file(int fd) const;
  // The same with the name of its ends, where it is a socket. The kernel may not have those of a connection that is
  // still being made to `target`.
  FileName with_ends(int fd, FileName socket, const SocketAddress *target) const;
  // The address of a socket in memory.
  std::optional<SocketAddress> read_address(uint64_t at, uint64_t bytes) const;
  // Where the descriptor's next read or write is; none for what has no positions.
  std::optional<int64_t> position(int fd) const;
  // The name that a path has for the thread, and the file there; without a type where there is none.
  FileName named(int dirfd, const std::string &path, bool follow_links) const;
  // The path under /proc that leads to the same file.
  std::string path_from_here(int dirfd, const std::string &path) const;

  // Bytes read and written of the whole process and its reaped children.
  std::optional<std::array<uint64_t, 2>> account() const;
  int process() const;  // its thread group; 0: it is gone
  int parent() const;
  unsigned thread_count() const;
  std::string link(const char *name) const;      // exe, cwd
  std::string contents(const char *name) const;  // cmdline, environ
  uint64_t auxiliary(uint64_t type) const;       // of the auxiliary vector (getauxval(3)); 0: there is none

 private:
  std::string place(const char *name) const { return "/proc/" + std::to_string(tid_) + "/" + name; }
  std::string status_field(const char *name) const;

  int tid_;
};

}  // namespace tailrace::launcher
