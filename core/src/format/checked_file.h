// Files in places that another user, or the traced program, can reach as well: what is opened there may be a trap, and
// what was opened may have been replaced.
#pragma once

#include "base/sys.h"

namespace tailrace {

// Opens a regular file: no link is followed, and a pipe does not wait for its other end. `directory`: the descriptor
// that a relative path begins at. A file that is made (O_CREAT) is its user's alone. Returns -errno; -EINVAL: no
// regular file.
int open_regular(const char *path, int flags, int directory = AT_FDCWD);
// Opens a directory, no link to one.
int open_directory(int parent, const char *name);
bool is_owned_by(int fd, unsigned uid);
// Whether the open file has lost its name: its user, or another sealer, has removed it.
bool is_unlinked(int fd);
// Whether a file of lines that is open for reading ends within one: a full disk can cut a write short.
bool ends_within_a_line(int fd);
// Waits for a file's lock (flock) up to a second: its holder may be stuck, or be at it for minutes. Whether it was
// granted.
bool lock_within_a_second(int fd);
// The same file under a high number: those that the launcher's own descriptors get are as without us, where programs
// are told them.
int high_descriptor(int fd);

}  // namespace tailrace
