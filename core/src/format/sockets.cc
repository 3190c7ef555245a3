// See format/sockets.h.
#include "format/sockets.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/un.h>

#include <atomic>

#include "base/sys.h"

namespace tailrace {
namespace {

constexpr string_view kTo = "->";
constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, Linux 5.14

struct Address {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un path;
    sockaddr_storage room;
  };
  socklen_t bytes = 0;

  // The kernel took or returned the length, so it is valid.
  void copy(const sockaddr *from, socklen_t n) {
    bytes = n < sizeof room ? n : sizeof room;
    memcpy(&room, from, bytes);
  }
  bool read(long call, int fd) {
    bytes = sizeof room;
    if (sys::call(call, fd, sys::pointer(&room), sys::pointer(&bytes)) < 0) bytes = 0;
    if (bytes > sizeof room) bytes = 0;
    return bytes != 0;
  }
  int family() const { return bytes >= sizeof(sa_family_t) ? any.sa_family : AF_UNSPEC; }

  // IPv4, also where it is written as IPv6 (RFC 4291, 2.5.5.2): both ends must read the same.
  const unsigned char *as_v4() const {
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (family() == AF_INET) return reinterpret_cast<const unsigned char *>(&v4.sin_addr);
    bool is_mapped = family() == AF_INET6 && memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0;
    return is_mapped ? reinterpret_cast<const unsigned char *>(&v6.sin6_addr) + sizeof mapped : nullptr;
  }
  uint16_t port() const { return __builtin_bswap16(family() == AF_INET ? v4.sin_port : v6.sin6_port); }
  // Unique only within one network namespace.
  bool is_local() const {
    if (const unsigned char *b = as_v4()) return b[0] == 127 || (b[0] | b[1] | b[2] | b[3]) == 0;
    const auto *b = reinterpret_cast<const unsigned char *>(&v6.sin6_addr);
    for (int i = 0; i < 15; ++i) {
      if (b[i]) return false;
    }
    return b[15] <= 1;
  }
  // The name of a unix socket: empty, or a path with its end, or a zero and any bytes (unix(7)).
  string_view unix_name() const {
    constexpr size_t kFrom = offsetof(sockaddr_un, sun_path);
    return {path.sun_path, bytes > kFrom ? bytes - kFrom : 0};
  }
};

void write_inet(Writer &out, const Address &a) {
  if (const unsigned char *b = a.as_v4()) {
    for (int i = 0; i < 4; ++i) out.number(b[i]) << (i < 3 ? '.' : ':');
  } else {
    out << '[';
    // Groups without compression: the same bytes give the same text.
    const auto *groups = reinterpret_cast<const unsigned char *>(&a.v6.sin6_addr);
    for (int i = 0; i < 8; ++i) {
      if (i) out << ':';
      out.short_hex(static_cast<uint64_t>(groups[2 * i] << 8 | groups[2 * i + 1]));
    }
    out << "]:";
  }
  out.number(a.port());
}

// False when the address has no name.
bool write_unix(Writer &out, const Address &a, string_view directory) {
  string_view name = a.unix_name();
  if (name.empty()) return false;
  if (name[0] == 0) {
    out << '@' << slice(name, 1, name.size() - 1);
    return true;
  }
  string_view path(name.data(), strnlen(name.data(), name.size()));
  if (path[0] != '/') {
    char here[512];
    if (directory.empty()) {
      long n = sys::getcwd(here, sizeof here);
      if (n > 1) directory = {here, static_cast<size_t>(n - 1)};
    }
    if (!directory.empty()) out << directory << '/';
    if (starts_with(path, "./")) path = slice(path, 2, path.size() - 2);
  }
  out << path;
  return true;
}

int option(int fd, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return sys::call(SYS_getsockopt, fd, SOL_SOCKET, name, sys::pointer(&value), sys::pointer(&bytes)) < 0 ? -1 : value;
}

// Each host numbers its namespaces from its boot on.
void write_namespace(Writer &out, int fd) {
  uint64_t cookie = 0;
  socklen_t bytes = sizeof cookie;
  if (sys::call(SYS_getsockopt, fd, SOL_SOCKET, kNetnsCookie, sys::pointer(&cookie), sys::pointer(&bytes)) < 0) return;
  (out << '@').number(static_cast<int64_t>(cookie));
}

// A kernel without sock_diag starts a program that searches for its module, so it is tried only once.
std::atomic<bool> g_unanswered;

// The inode of the unix socket at the other end, which only sock_diag(7) tells. 0 where it is unknown, and for a
// connection that is not accepted yet: then the accepting process records it.
uint32_t unix_peer(uint32_t ino) {
  struct {
    nlmsghdr head;
    unix_diag_req body;
  } ask{};
  ask.head.nlmsg_len = sizeof ask;
  ask.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  ask.head.nlmsg_flags = NLM_F_REQUEST;
  ask.body.sdiag_family = AF_UNIX;
  ask.body.udiag_states = ~0U;
  ask.body.udiag_ino = ino;
  ask.body.udiag_show = UDIAG_SHOW_PEER;
  ask.body.udiag_cookie[0] = ask.body.udiag_cookie[1] = ~0U;

  if (g_unanswered.load(std::memory_order_relaxed)) return 0;
  sys::SignalsBlocked blocked;
  auto fd = static_cast<int>(sys::call(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (fd == -EMFILE || fd == -ENFILE) return 0;
  if (fd < 0) g_unanswered.store(true, std::memory_order_relaxed);
  if (fd < 0) return 0;
  alignas(nlmsghdr) char reply[256];
  long n = sys::call(SYS_sendto, fd, sys::pointer(&ask), sizeof ask, MSG_DONTWAIT);
  // The kernel answers within the call that sends.
  if (n > 0) n = sys::call(SYS_recvfrom, fd, sys::pointer(reply), sizeof reply, MSG_DONTWAIT);
  sys::close(fd);
  const auto *head = reinterpret_cast<const nlmsghdr *>(reply);
  if (n < static_cast<long>(NLMSG_LENGTH(sizeof(unix_diag_msg))) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    g_unanswered.store(true, std::memory_order_relaxed);
    return 0;
  }
  for (long at = NLMSG_SPACE(sizeof(unix_diag_msg)); at + static_cast<long>(sizeof(nlattr) + 4) <= n;) {
    nlattr attribute;
    memcpy(&attribute, reply + at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute) return 0;
    if (attribute.nla_type == UNIX_DIAG_PEER) {
      uint32_t peer;
      memcpy(&peer, reply + at + sizeof attribute, sizeof peer);
      return peer;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  return 0;
}

const char *inet_protocol(int protocol) {
  constexpr int kMptcp = 262;
  switch (protocol) {
    case IPPROTO_TCP:
    case kMptcp: return "tcp";
    case IPPROTO_SCTP: return "sctp";
    case IPPROTO_UDP: return "udp";
    default: return nullptr;
  }
}

Messages write_inet_socket(Writer &out, int fd, const Address &own, const Address &peer) {
  const char *protocol = inet_protocol(option(fd, SO_PROTOCOL));
  if (!protocol) return Messages::kNone;
  bool datagrams = option(fd, SO_TYPE) == SOCK_DGRAM;
  if (!datagrams && !peer.bytes) return Messages::kNone;
  out << protocol;
  if (own.is_local()) write_namespace(out, fd);
  out << ':';
  write_inet(out, own);
  out << kTo;
  if (peer.bytes) {
    write_inet(out, peer);
  } else {
    out << '*';
  }
  if (!datagrams) return Messages::kNone;
  return own.port() == 0 ? Messages::kUnbound : Messages::kAddressed;
}

Messages write_unix_socket(Writer &out, int fd, uint64_t ino, const Address &own, const Address &peer,
                           string_view directory) {
  if (option(fd, SO_TYPE) == SOCK_DGRAM && (!own.unix_name().empty() || !peer.unix_name().empty() || !peer.bytes)) {
    out << "unix-dgram:";
    if (!write_unix(out, own, directory)) out << '*';
    out << kTo;
    if (!write_unix(out, peer, directory)) out << '*';
    return Messages::kAddressed;
  }
  if (!peer.bytes) return Messages::kNone;
  out << "unix:[";
  out.number(static_cast<int64_t>(ino)) << "]" << kTo << '[';
  uint32_t other = unix_peer(static_cast<uint32_t>(ino));
  if (other) {
    out.number(other);
  } else {
    out << '?';
  }
  out << ']';
  // The path is that of the listening socket.
  const Address &named = peer.unix_name().empty() ? own : peer;
  if (!named.unix_name().empty()) write_unix(out << ' ', named, directory);
  return Messages::kNone;
}

}  // namespace

void ask_for_no_peers() { g_unanswered.store(true, std::memory_order_relaxed); }

Messages write_socket_name(Writer &out, int fd, uint64_t ino, const struct sockaddr *target, socklen_t target_bytes,
                           string_view directory) {
  Address own, peer;
  own.read(SYS_getsockname, fd);
  int family = own.family();
  if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) return Messages::kNone;
  if (!peer.read(SYS_getpeername, fd) && target) peer.copy(target, target_bytes);
  if (family == AF_UNIX) return write_unix_socket(out, fd, ino, own, peer, directory);
  if (peer.bytes && peer.family() != AF_INET && peer.family() != AF_INET6) peer.bytes = 0;
  return write_inet_socket(out, fd, own, peer);
}

bool write_message_name(Writer &out, string_view socket_name, const struct sockaddr *other, socklen_t other_bytes,
                        string_view directory) {
  bool inet = starts_with(socket_name, "udp");
  if (!inet && !starts_with(socket_name, "unix-dgram:")) return false;
  size_t own = 0;
  while (own + kTo.size() <= socket_name.size() && slice(socket_name, own, kTo.size()) != kTo) ++own;
  if (own + kTo.size() > socket_name.size() || !other || other_bytes < sizeof(sa_family_t)) return false;
  Address a;
  a.copy(other, other_bytes);
  bool is_inet =
      (a.family() == AF_INET && a.bytes >= sizeof a.v4) || (a.family() == AF_INET6 && a.bytes >= sizeof a.v6);
  if (inet ? !is_inet : a.family() != AF_UNIX || a.unix_name().empty()) return false;
  out << slice(socket_name, 0, own + kTo.size());
  if (inet) {
    write_inet(out, a);
  } else {
    write_unix(out, a, directory);
  }
  return !out.overflowed();
}

}  // namespace tailrace
