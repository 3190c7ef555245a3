// The kind of a lock in a record: the operation of flock(2) (LOCK_SH and the like), whatever call takes the lock, and
// kOfDescription for a range lock of an open file description (F_OFD_SETLK). docs/trace-format.md, "Locks".
#pragma once

#include <fcntl.h>
#include <stdint.h>
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

// file2 of a lock's record: its kind, and the pid of who had it when the wait for it began (0: nobody, or it is not
// known).
constexpr uint64_t lock_word(int kind, uint32_t holder) {
  return static_cast<uint32_t>(kind) | static_cast<uint64_t>(holder) << 32;
}
constexpr int lock_kind_in(uint64_t word) { return static_cast<int>(static_cast<uint32_t>(word)); }
constexpr uint32_t lock_holder_in(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

}  // namespace tailrace
