// See tracee.h.
#include "tracee.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "fault.h"
#include "files.h"
#include "kernel_numbers.h"

namespace tailrace::launcher {
namespace {

constexpr size_t kMostText = 4 << 20;
constexpr unsigned kMask = STATX_TYPE | STATX_MODE | STATX_INO | STATX_NLINK | STATX_BTIME;
constexpr std::string_view kDeleted = " (deleted)";

std::string read_link(const std::string &path) {
  char target[PATH_MAX];
  const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
  return {target, static_cast<size_t>(n > 0 ? n : 0)};
}

FileName finished(std::string path, const FileIdentity &identity) {
  FileName name{std::move(path), identity, 0};
  name.hash = file_hash(name.path, identity);
  return name;
}

// The number behind "key:"; none where there is no such line.
std::optional<uint64_t> number_behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  size_t digit = at + key.size();
  while (digit < text.size() && (text[digit] == ' ' || text[digit] == '\t')) ++digit;
  string_view rest = text.substr(digit);
  uint64_t value = 0;
  return take_decimal(rest, value) ? std::optional(value) : std::nullopt;
}

// Files of /proc are small and whole in one read.
std::string read_small(const std::string &path) {
  char text[1024];
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd.is_open() ? ::read(fd.get(), text, sizeof text) : 0;
  return {text, static_cast<size_t>(n > 0 ? n : 0)};
}

// Without "." and empty parts; ".." can't be taken back without a look-up, since the part before may be a link.
std::string joined(const std::string &directory, const std::string &path) {
  std::string out = path[0] == '/' ? "" : directory;
  if (out == "/") out.clear();
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (!part.empty() && part != ".") (out += '/') += part;
    at = end + 1;
  }
  return out.empty() ? "/" : out;
}

}  // namespace

bool Tracee::read_memory(uint64_t at, void *to, size_t n) const {
  struct iovec here = {to, n}, there = {reinterpret_cast<void *>(at), n};
  return ::process_vm_readv(tid_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(n);
}

std::optional<std::string> Tracee::read_path(uint64_t at) const {
  constexpr size_t kPage = 4096;
  std::string out;
  while (at != 0 && out.size() < PATH_MAX) {
    char part[kPage];
    // Not beyond the page, behind which there may be no memory.
    struct iovec here = {part, kPage - at % kPage}, there = {reinterpret_cast<void *>(at), here.iov_len};
    const ssize_t n = ::process_vm_readv(tid_, &here, 1, &there, 1, 0);
    if (n <= 0) return std::nullopt;
    const size_t text = ::strnlen(part, static_cast<size_t>(n));
    out.append(part, text);
    if (text < static_cast<size_t>(n)) return out;
    at += static_cast<size_t>(n);
  }
  return std::nullopt;
}

std::optional<FileName> Tracee::open_file(int fd) const {
  const std::string path = place("fd/") + std::to_string(fd);
  struct statx s;
  if (fd < 0 || ::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, kMask, &s) != 0) return std::nullopt;
  std::string name = read_link(path);
  if (s.stx_nlink == 0 && ends_with(name, kDeleted)) name.resize(name.size() - kDeleted.size());
  return finished(std::move(name), identity_of(s));
}

FileName Tracee::with_ends(int fd, FileName socket, const SocketAddress *target) const {
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process(), 0)));
  // Linux 5.6. Without it the kernel tells the inode only.
  const Descriptor here(pidfd.is_open() ? static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), fd, 0)) : -1);
  if (!here.is_open()) return socket;
  char text[PATH_MAX];
  Writer w(text, sizeof text);
  const Messages messages =
      write_socket_name(w, here.get(), socket.identity.ino, target != nullptr ? target->get() : nullptr,
                        target != nullptr ? target->bytes : 0, link("cwd"));
  if (w.size() == 0 || w.overflowed()) return socket;
  FileName name = finished(std::string(w.view()), socket.identity);
  name.messages = messages;
  return name;
}

std::optional<SocketAddress> Tracee::read_address(uint64_t at, uint64_t bytes) const {
  SocketAddress address = {};
  address.bytes = static_cast<socklen_t>(std::min<uint64_t>(bytes, sizeof address.storage));
  const bool is_there = at != 0 && bytes >= sizeof(sa_family_t) && read_memory(at, &address.storage, address.bytes);
  return is_there ? std::optional(address) : std::nullopt;
}

std::optional<int64_t> Tracee::position(int fd) const {
  const auto found = number_behind(read_small(place("fdinfo/") + std::to_string(fd)), "pos:");
  return found ? std::optional(static_cast<int64_t>(*found)) : std::nullopt;
}

std::string Tracee::path_from_here(int dirfd, const std::string &path) const {
  if (!path.empty() && path[0] == '/') return place("root") + path;
  return place(dirfd == AT_FDCWD ? "cwd" : ("fd/" + std::to_string(dirfd)).c_str()) + (path.empty() ? "" : "/" + path);
}

FileName Tracee::named(int dirfd, const std::string &path, bool follow_links) const {
  const std::string from_here = path_from_here(dirfd, path);
  const Descriptor fd(::open(from_here.c_str(), O_PATH | O_CLOEXEC | (follow_links ? 0 : O_NOFOLLOW)));
  struct statx s;
  if (fd.is_open() && ::statx(fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kMask, &s) == 0)
    return finished(read_link("/proc/self/fd/" + std::to_string(fd.get())), identity_of(s));
  const std::string directory = dirfd == AT_FDCWD ? link("cwd") : read_link(place("fd/") + std::to_string(dirfd));
  return finished(joined(directory, path), FileIdentity{});
}

std::optional<std::array<uint64_t, 2>> Tracee::account() const {
  const int pid = process();
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/io");
  const auto read = number_behind(text, "rchar:"), written = number_behind(text, "wchar:");
  if (!read || !written) return std::nullopt;
  return std::array<uint64_t, 2>{*read, *written};
}

std::string Tracee::status_field(const char *name) const {
  const std::string text = contents("status"), key = std::string("\n") + name + ":\t";
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t from = at + key.size();
  return text.substr(from, text.find('\n', from) - from);
}

int Tracee::process() const { return std::atoi(status_field("Tgid").c_str()); }
int Tracee::parent() const { return std::atoi(status_field("PPid").c_str()); }
unsigned Tracee::thread_count() const { return static_cast<unsigned>(std::atoi(status_field("Threads").c_str())); }

std::string Tracee::link(const char *name) const { return read_link(place(name)); }

uint64_t Tracee::auxiliary(uint64_t type) const {
  const std::string all = contents("auxv");
  uint64_t entry[2];
  for (size_t at = 0; at + sizeof entry <= all.size(); at += sizeof entry) {
    std::memcpy(entry, all.data() + at, sizeof entry);
    if (entry[0] == type) return entry[1];
  }
  return 0;
}

std::string Tracee::contents(const char *name) const {
  try {
    return read_file(place(name), kMostText);
  } catch (const Fault &) {
    return "";
  }
}

}  // namespace tailrace::launcher
