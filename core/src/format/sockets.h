// The names of sockets. A socket whose other end is known gets a name in the trace from both endpoints, so that what
// one end sent and the other received can be joined (docs/trace-format.md, "Sockets").
//
// Only sock_diag(7) tells two connections of unix sockets apart: a netlink socket for some 6 us a connection, and no
// more in a process where the kernel had no answer, since it would search for a module by starting a program. Rejected:
// SO_PEERCRED and the path, which name processes, not connections.
#pragma once

#include <sys/socket.h>

#include "base/text.h"

namespace tailrace {

// What the socket's name tells about its messages. Messages of datagram sockets may have addresses of their own; an
// unbound socket gets its address with the first message it sends.
enum class Messages : uint8_t { kNone, kAddressed, kUnbound };

// Writes the name of the socket with inode `ino` behind `fd`. `target` is the address of a connection that is still
// being made, null otherwise. Relative paths are below `directory`, or if it is empty the process's. Writes nothing
// when the kernel tells only the inode.
Messages write_socket_name(Writer &out, int fd, uint64_t ino, const struct sockaddr *target, socklen_t target_bytes,
                           string_view directory = {});

// From now on the other end of a unix socket's connection stays unknown: to ask the kernel for it takes a descriptor.
void ask_for_no_peers();

// Writes the name for one message between the datagram socket of that name and `other`. False when the socket is of
// another kind, or the address has no name.
bool write_message_name(Writer &out, string_view socket_name, const struct sockaddr *other, socklen_t other_bytes,
                        string_view directory = {});

}  // namespace tailrace
