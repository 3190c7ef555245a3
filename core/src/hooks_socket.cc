// Hooks: sockets. Their bytes have no offsets; a message may carry descriptors.
#include <string.h>
#include <sys/socket.h>

#include "hook_records.h"
#include "real.h"

using namespace tailrace;

extern "C" {
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
}

namespace {

// A received descriptor has a number that was free, and what the table said of it was forgotten when it was closed;
// unless that happened where no hook was (another thread's own table, a closer of some other library).
void forget_received(const struct msghdr &message) {
  for (auto *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(const_cast<struct msghdr *>(&message), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      forget_file(fd);
    }
  }
}

// Several messages in one call: `ret` is their number, the size is in each.
void record_messages(const Call &call, Fn fn, int fd, const struct mmsghdr *messages, int ret) {
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
  if (file) e.file = file->hash.load(std::memory_order_relaxed);
  record_file(call, e, file);
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
TRANSFER_HOOK(recvfrom, (int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *bytes),
              (fd, buf, n, flags, from, bytes))
TRANSFER_HOOK(__recvfrom_chk,
              (int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *bytes),
              (fd, buf, n, room, flags, from, bytes))
TRANSFER_HOOK(sendto, (int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t bytes),
              (fd, buf, n, flags, to, bytes))

TAILRACE_HOOK ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  Call call;
  ssize_t ret = REAL(sendmsg)(fd, message, flags);
  if (call) {
    uint64_t count = ret < 0 ? kNoCount : bytes_of(message->msg_iov, message->msg_iovlen, ret);
    record_transfer(call, Fn::f_sendmsg, fd, kNowhere, count, ret);
  }
  return ret;
}

TAILRACE_HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  Call call;
  ssize_t ret = REAL(recvmsg)(fd, message, flags);
  if (!call) return ret;
  if (ret >= 0) forget_received(*message);
  uint64_t count = ret < 0 ? kNoCount : bytes_of(message->msg_iov, message->msg_iovlen, ret);
  record_transfer(call, Fn::f_recvmsg, fd, kNowhere, count, ret);
  return ret;
}

TAILRACE_HOOK int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags) {
  Call call;
  int ret = REAL(sendmmsg)(fd, messages, n, flags);
  record_messages(call, Fn::f_sendmmsg, fd, messages, ret);
  return ret;
}

TAILRACE_HOOK int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *patience) {
  Call call;
  int ret = REAL(recvmmsg)(fd, messages, n, flags, patience);
  for (int i = 0; call && i < ret; ++i) forget_received(messages[i].msg_hdr);
  record_messages(call, Fn::f_recvmmsg, fd, messages, ret);
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

#define SOCKET_HOOK(symbol, parameters, arguments) \
  TAILRACE_HOOK int symbol parameters {            \
    Call call;                                     \
    int ret = REAL(symbol) arguments;              \
    record_fd(call, Fn::f_##symbol, fd, ret);      \
    return ret;                                    \
  }
SOCKET_HOOK(connect, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes))
SOCKET_HOOK(bind, (int fd, const struct sockaddr *to, socklen_t bytes) noexcept, (fd, to, bytes))
SOCKET_HOOK(listen, (int fd, int backlog) noexcept, (fd, backlog))
SOCKET_HOOK(shutdown, (int fd, int how) noexcept, (fd, how))
