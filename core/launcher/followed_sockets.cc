// See followed_process.h: calls on sockets, as hooks/socket.cc records them. A socket has its ends' names from the
// moment it is connected, accepted or bound; a message with an address of its own has that in its name
// (format/sockets.h).
#include <errno.h>
#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <vector>

#include "followed_process.h"

namespace tailrace::launcher {
namespace {

std::optional<SocketAddress> address_of(const Tracee &tracee, const struct msghdr &message) {
  return tracee.read_address(reinterpret_cast<uint64_t>(message.msg_name), message.msg_namelen);
}

}  // namespace

void FollowedProcess::forget_socket(int fd) {
  const auto known = files_.find(fd);
  if (known == files_.end()) return;
  const uint64_t ino = known->second.identity.ino;
  for (auto one = files_.begin(); one != files_.end();) {
    const FileIdentity &identity = one->second.identity;
    const bool is_same = identity.type == FileType::kSocket && identity.ino == ino;
    one = is_same || one == known ? files_.erase(one) : std::next(one);
  }
}

void FollowedProcess::record_made(int tid, const PendingCall &call, Fn fn, int64_t ret) {
  if (ret >= 0) forget(static_cast<int>(ret));
  record_plain(tid, call, fn, ret >= 0 ? file(Tracee(tid), static_cast<int>(ret)) : nullptr, ret);
}

void FollowedProcess::record_addressed(int tid, const PendingCall &call, Fn fn, int64_t ret) {
  const Tracee tracee(tid);
  const int fd = descriptor(call.arguments[0]);
  const auto target = fn == Fn::f_connect ? tracee.read_address(call.arguments[1], call.arguments[2]) : std::nullopt;
  // A connection may be made after the call, which then has failed.
  const bool is_pending = target && (ret == -EINPROGRESS || ret == -EINTR);
  file(tracee, fd);
  if (ret == 0 || is_pending) forget_socket(fd);
  record_plain(tid, call, fn, file(tracee, fd, target ? &*target : nullptr), ret);
}

void FollowedProcess::record_message(int tid, const PendingCall &call, Fn fn, uint64_t count, int64_t ret,
                                     const std::optional<SocketAddress> &other) {
  const Tracee tracee(tid);
  const int fd = descriptor(call.arguments[0]);
  const FileName *socket = file(tracee, fd);
  // It got its address with this message.
  if (socket != nullptr && socket->messages == Messages::kUnbound && ret >= 0) {
    forget_socket(fd);
    socket = file(tracee, fd);
  }
  Record record = returned(call, fn, ret);
  record.count = count;
  record.file = socket;
  FileName of_message;
  if (socket != nullptr && socket->messages != Messages::kNone && other && ret >= 0) {
    char text[PATH_MAX];
    Writer w(text, sizeof text);
    if (write_message_name(w, socket->path, other->get(), other->bytes, tracee.link("cwd"))) {
      of_message = {std::string(w.view()), socket->identity, 0, Messages::kNone};
      of_message.hash = file_hash(of_message.path, of_message.identity);
      record.file = &of_message;
    }
  }
  journal_.add(tid, record);
}

void FollowedProcess::record_messages(int tid, const PendingCall &call, Fn fn, int64_t ret) {
  const Tracee tracee(tid);
  std::vector<struct mmsghdr> messages(static_cast<size_t>(std::clamp<int64_t>(ret, 0, IOV_MAX)));
  const bool is_known = tracee.read_memory(call.arguments[1], messages.data(), messages.size() * sizeof messages[0]);
  const int fd = descriptor(call.arguments[0]);
  Record record = returned(call, fn, ret);
  record.count = UINT64_MAX;
  if (ret >= 0) {
    record.ret = 0;
    record.number2 = static_cast<uint64_t>(ret);
    for (const struct mmsghdr &message : messages) record.ret += is_known ? message.msg_len : 0;
  }
  record.file = file(tracee, fd);
  if (ret > 0 && record.file != nullptr && record.file->messages == Messages::kUnbound) {
    forget_socket(fd);
    record.file = file(tracee, fd);
  }
  journal_.add(tid, record);
}

bool FollowedProcess::leave_sockets(int tid, const PendingCall &call, int64_t ret) {
  const Tracee tracee(tid);
  const uint64_t *a = call.arguments;
  switch (call.number) {
    case SYS_socket: record_made(tid, call, Fn::f_socket, ret); break;
    case SYS_accept: record_made(tid, call, Fn::f_accept, ret); break;
    case SYS_accept4: record_made(tid, call, Fn::f_accept4, ret); break;
    case SYS_socketpair: record_pair(tid, call, Fn::f_socketpair, a[3], ret); break;
    case SYS_connect: record_addressed(tid, call, Fn::f_connect, ret); break;
    case SYS_bind: record_addressed(tid, call, Fn::f_bind, ret); break;
    case SYS_listen: record_plain(tid, call, Fn::f_listen, file(tracee, descriptor(a[0])), ret); break;
    case SYS_shutdown: record_plain(tid, call, Fn::f_shutdown, file(tracee, descriptor(a[0])), ret); break;
    case SYS_sendto: record_message(tid, call, Fn::f_sendto, a[2], ret, tracee.read_address(a[4], a[5])); break;
    case SYS_recvfrom: {
      const auto bytes = tracee.read<socklen_t>(a[5]);
      record_message(tid, call, Fn::f_recvfrom, a[2], ret, tracee.read_address(a[4], bytes.value_or(0)));
      break;
    }
    case SYS_sendmsg:
    case SYS_recvmsg: {
      const auto message = tracee.read<struct msghdr>(a[1]);
      const Fn fn = call.number == SYS_sendmsg ? Fn::f_sendmsg : Fn::f_recvmsg;
      record_message(tid, call, fn, UINT64_MAX, ret, message ? address_of(tracee, *message) : std::nullopt);
      break;
    }
    case SYS_sendmmsg: record_messages(tid, call, Fn::f_sendmmsg, ret); break;
    case SYS_recvmmsg: record_messages(tid, call, Fn::f_recvmmsg, ret); break;
    default: return false;
  }
  return true;
}

}  // namespace tailrace::launcher
