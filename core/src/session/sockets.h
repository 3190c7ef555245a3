// What a socket's two ends are: the name that stands in the trace for a socket whose other end is known, such that what
// one end sent and the other received can be joined. docs/trace-format.md, "Sockets".
#pragma once

#include <sys/socket.h>

#include "base/text.h"

namespace tailrace {

// What the name says of a socket's messages: those of datagrams may have addresses of their own; an unbound socket gets
// its own by the first message it sends.
enum class Messages : uint8_t { kNone, kAddressed, kUnbound };

// The socket of number `ino` behind `fd`, as far as the kernel says. `target` is the address that a connection is still
// being made to, null otherwise. Nothing is written when no more is known than the socket's number.
Messages write_socket_name(Writer &out, int fd, uint64_t ino, const struct sockaddr *target, socklen_t target_bytes);

// The name for one message between the datagram socket of that name and `other`. False when it is no such socket, or
// the address none that can be named.
bool write_message_name(Writer &out, string_view socket_name, const struct sockaddr *other, socklen_t other_bytes);

}  // namespace tailrace
