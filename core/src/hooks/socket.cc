// Hooks: sockets. Their bytes have no offsets; a message may carry descriptors.
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked_memory.h"
#include "hooks/hook_records.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
}

namespace {

void each_descriptor(const struct msghdr &message, void (*visit)(int fd)) {
  for (auto *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(const_cast<struct msghdr *>(&message), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      visit(fd);
    }
  }
}

// A received descriptor has a number that was free, and closing it has emptied its entry in the table, except where no
// hook saw the close (in a thread with a table of its own, by a raw system call of a library).
void forget_received(const struct msghdr &message) { each_descriptor(message, forget_file); }

// What was sent is open in two processes.
void share_sent(const struct msghdr &message) { each_descriptor(message, file_shared); }

// The address of a message is readable when the call succeeded; of a received one only as much as the kernel wrote.
struct Other {
  const struct sockaddr *address = nullptr;
  socklen_t bytes = 0;
};

// How much room a call has for an address. The kernel puts the address's own length there, which may be more: then it
// is cut, and no address. 0: the pointer is bad.
socklen_t room_at(const socklen_t *length) {
  if (is_on_callers_stack(length, sizeof *length)) return *length;
  socklen_t room = 0;
  const long copied = copy_memory(sys::getpid(), reinterpret_cast<uintptr_t>(length), &room, sizeof room);
  if (copied == sizeof room) return room;
  return is_missing(copied) || copied > 0 ? 0 : *length;
}

// The same for several messages; those beyond have none.
struct Rooms {
  static constexpr unsigned kMost = 32;
  unsigned count = 0;
  socklen_t bytes[kMost];

  Rooms(const struct mmsghdr *messages, unsigned n) {
    n = n < kMost ? n : kMost;
    while (count < n && (bytes[count] = room_at(&messages[count].msg_hdr.msg_namelen))) ++count;
  }
  bool has(unsigned i, socklen_t wanted) const { return i < count && wanted <= bytes[i]; }
};

// A message of a datagram socket to or from an address of its own.
void record_message(const Call &call, Fn fn, int fd, uint64_t count, ssize_t ret, Other other) {
  if (!call || !enter()) return;
  int saved = errno;
  OpenFile *file = ret < 0 ? nullptr : file_of(fd);
  if (file && file->messages == Messages::kUnbound) socket_changed(fd, nullptr, 0);
  NamedFile name;
  if (file && other.address && name_message(file, other.address, other.bytes, name)) {
    record_path(call, Event{fn, 0, 0, -1, count, ret}, &name);
  } else {
    errno = saved;
    record_transfer(call, fn, fd, kNowhere, count, ret);
  }
  errno = saved;
}

// Several messages in one call: `ret` is their number, each has its size. `rooms`: of those that were received.
void record_messages(const Call &call, Fn fn, int fd, const struct mmsghdr *messages, int ret, const Rooms *rooms) {
  if (!call || !enter()) return;
  int saved = errno;
  Event e;
  e.fn = fn;
  e.count = kNoCount;
  e.ret = result_of(ret);
  if (ret >= 0) {
    e.count = 0;
    e.ret = 0;
    e.file2 = static_cast<uint64_t>(ret);
  }
  for (int i = 0; i < ret; ++i) {
    e.count += bytes_of(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen, 0);
    e.ret += messages[i].msg_len;
  }
  OpenFile *file = file_of(fd);
  if (file && file->messages == Messages::kUnbound && ret > 0) socket_changed(fd, nullptr, 0);
  if (file) e.file = file->hash.load(std::memory_order_relaxed);
  // If all have the same address, the event has it.
  Other first;
  for (int i = 0; i < ret; ++i) {
    const struct msghdr &m = messages[i].msg_hdr;
    const bool is_whole = m.msg_name && (!rooms || rooms->has(static_cast<unsigned>(i), m.msg_namelen));
    Other this_one{static_cast<const struct sockaddr *>(m.msg_name), is_whole ? m.msg_namelen : 0};
    if (i == 0) first = this_one;
    bool same = this_one.bytes && this_one.bytes == first.bytes;
    if (!same || memcmp(this_one.address, first.address, first.bytes) != 0) first.address = nullptr;
    if (!first.address) break;
  }
  NamedFile name;
  if (file && first.address && name_message(file, first.address, first.bytes, name)) {
    record_path(call, e, &name);
  } else {
    record_file(call, e, file);
  }
  errno = saved;
}

}  // namespace

// The calls whose result is the bytes moved.
#define TRANSFER_HOOK(symbol, parameters, arguments)             \
  TAILRACE_HOOK ssize_t symbol parameters {                      \
    Call call;                                                   \
    ssize_t ret = REAL(symbol) arguments;                        \
    record_transfer(call, Fn::f_##symbol, fd, kNowhere, n, ret); \
    return ret;                                                  \
  }
TRANSFER_HOOK(recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))
TRANSFER_HOOK(__recv_chk, (int fd, void *buf, size_t n, size_t room, int flags), (fd, buf, n, room, flags))
TRANSFER_HOOK(send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))

// For connected streams the address is ignored, or not filled in (`bytes` 0).
#define RECEIVE_HOOK(symbol, parameters, arguments)                                     \
  TAILRACE_HOOK ssize_t symbol parameters {                                             \
    Call call;                                                                          \
    const socklen_t had = call && address ? room_at(bytes) : 0;                         \
    ssize_t ret = REAL(symbol) arguments;                                               \
    Other other;                                                                        \
    if (call && ret >= 0 && address && had && *bytes <= had) other = {address, *bytes}; \
    record_message(call, Fn::f_##symbol, fd, n, ret, other);                            \
    return ret;                                                                         \
  }
RECEIVE_HOOK(recvfrom, (int fd, void *buf, size_t n, int flags, struct sockaddr *address, socklen_t *bytes),
             (fd, buf, n, flags, address, bytes))
RECEIVE_HOOK(__recvfrom_chk,
             (int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *address, socklen_t *bytes),
             (fd, buf, n, room, flags, address, bytes))

TAILRACE_HOOK ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *address,
                             socklen_t bytes) {
  Call call;
  ssize_t ret = REAL(sendto)(fd, buf, n, flags, address, bytes);
  Other other;
  if (call && ret >= 0 && address) other = {address, bytes};
  record_message(call, Fn::f_sendto, fd, n, ret, other);
  return ret;
}

namespace {

// `room`: how long its address may be.
void record_header(const Call &call, Fn fn, int fd, const struct msghdr *message, ssize_t ret, socklen_t room) {
  uint64_t count = ret < 0 ? kNoCount : bytes_of(message->msg_iov, message->msg_iovlen, ret);
  Other other;
  if (ret >= 0 && message->msg_namelen <= room) {
    other = {static_cast<const struct sockaddr *>(message->msg_name), message->msg_namelen};
  }
  record_message(call, fn, fd, count, ret, other);
}

}  // namespace

TAILRACE_HOOK ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  Call call;
  ssize_t ret = REAL(sendmsg)(fd, message, flags);
  if (!call) return ret;
  if (ret >= 0) share_sent(*message);
  record_header(call, Fn::f_sendmsg, fd, message, ret, UINT32_MAX);
  return ret;
}

TAILRACE_HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  Call call;
  const socklen_t room = call && message ? room_at(&message->msg_namelen) : 0;
  ssize_t ret = REAL(recvmsg)(fd, message, flags);
  if (!call) return ret;
  if (ret >= 0) forget_received(*message);
  record_header(call, Fn::f_recvmsg, fd, message, ret, room);
  return ret;
}

TAILRACE_HOOK int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags) {
  Call call;
  int ret = REAL(sendmmsg)(fd, messages, n, flags);
  for (int i = 0; call && i < ret; ++i) share_sent(messages[i].msg_hdr);
  record_messages(call, Fn::f_sendmmsg, fd, messages, ret, nullptr);
  return ret;
}

TAILRACE_HOOK int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *patience) {
  Call call;
  const Rooms rooms(messages, call ? n : 0);
  int ret = REAL(recvmmsg)(fd, messages, n, flags, patience);
  for (int i = 0; call && i < ret; ++i) forget_received(messages[i].msg_hdr);
  record_messages(call, Fn::f_recvmmsg, fd, messages, ret, &rooms);
  return ret;
}

#define SOCKET_MAKER_HOOK(symbol, parameters, arguments) \
  TAILRACE_HOOK int symbol parameters {                  \
    Call call;                                           \
    int ret = REAL(symbol) arguments;                    \
    record_made(call, Fn::f_##symbol, ret);              \
    return ret;                                          \
  }
SOCKET_MAKER_HOOK(socket, (int domain, int type, int protocol) noexcept, (domain, type, protocol))
SOCKET_MAKER_HOOK(accept, (int fd, struct sockaddr *from, socklen_t *bytes), (fd, from, bytes))
SOCKET_MAKER_HOOK(accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags), (fd, from, bytes, flags))

TAILRACE_HOOK int socketpair(int domain, int type, int protocol, int fds[2]) noexcept {
  Call call;
  int ret = REAL(socketpair)(domain, type, protocol, fds);
  record_pair(call, Fn::f_socketpair, fds, ret);
  return ret;
}

// These leave the socket as it was. It is named by the address while the call is recorded, for who waits for a server
// tries again.
static bool is_refused(int error) {
  return error == ECONNREFUSED || error == ENOENT || error == ETIMEDOUT || error == ENETUNREACH ||
         error == EHOSTUNREACH || error == EHOSTDOWN;
}

// `target` is null where the address is that of the socket itself.
static void record_addressed(const Call &call, Fn fn, int fd, int ret, const struct sockaddr *target, socklen_t bytes) {
  int saved = errno;
  // A connection may be made after the call, which then has failed.
  bool pending = target && ret < 0 && (saved == EINPROGRESS || saved == EINTR);
  const bool refused = target && ret < 0 && is_refused(saved);
  if (call && (ret == 0 || pending || refused) && enter()) socket_changed(fd, target, bytes);
  errno = saved;
  record_fd(call, fn, fd, ret);
  if (call && refused && enter()) socket_changed(fd, nullptr, 0);
  errno = saved;
}

TAILRACE_HOOK int connect(int fd, const struct sockaddr *to, socklen_t bytes) {
  Call call;
  int ret = REAL(connect)(fd, to, bytes);
  record_addressed(call, Fn::f_connect, fd, ret, to, bytes);
  return ret;
}

TAILRACE_HOOK int bind(int fd, const struct sockaddr *to, socklen_t bytes) noexcept {
  Call call;
  int ret = REAL(bind)(fd, to, bytes);
  record_addressed(call, Fn::f_bind, fd, ret, nullptr, 0);
  return ret;
}

#define SOCKET_HOOK(symbol, parameters, arguments) \
  TAILRACE_HOOK int symbol parameters {            \
    Call call;                                     \
    int ret = REAL(symbol) arguments;              \
    record_fd(call, Fn::f_##symbol, fd, ret);      \
    return ret;                                    \
  }
SOCKET_HOOK(listen, (int fd, int backlog) noexcept, (fd, backlog))
SOCKET_HOOK(shutdown, (int fd, int how) noexcept, (fd, how))
