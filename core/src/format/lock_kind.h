// The kind of a lock in a record: the operation of flock(2) (LOCK_SH and the like), whatever call takes the lock, and
// kOfDescription for a range lock of an open file description (F_OFD_SETLK). docs/trace-format.md, "Locks".
#pragma once

#include <fcntl.h>
#include <sys/file.h>

namespace tailrace {

constexpr int kOfDescription = 16;

// Whether a command of fcntl(2) locks bytes or releases them.
inline bool is_lock(int command) {
  return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

inline int lock_kind(int command, short type) {
  const int kind = type == F_UNLCK ? LOCK_UN : type == F_RDLCK ? LOCK_SH : LOCK_EX;
  const int tries = command == F_SETLK || command == F_OFD_SETLK ? LOCK_NB : 0;
  const int of = command == F_OFD_SETLK || command == F_OFD_SETLKW ? kOfDescription : 0;
  return kind | tries | of;
}

}  // namespace tailrace
