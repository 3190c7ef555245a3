// Programs that are about to be started: what keeps this library out of them, as far as their file says.
#pragma once

#include <stdint.h>

#include "base/text.h"

namespace tailrace {

enum class Obstacle : uint8_t {
  kNone,      // also where the file can't be read: execve will say
  kStatic,    // no dynamic linker
  kMusl,      // its dynamic linker fails on a glibc library
  kMachine,   // another processor's or word size's
  kSetuid,    // privileges by its file: the loader takes no preloaded library
  kGo,        // static, and makes its system calls itself
  kLeftOut,   // TAILRACE_UNTRACED names it
  kDropped,   // whoever starts it took our settings out, as TAILRACE_PROPAGATE lets it
  kConfined,  // no program: the process goes on under a filter that our calls would not survive (hooks/seccomp.h)
  kCount
};
// Their names in the trace (docs/trace-format.md, "Programs that are not traced").
extern const string_view kObstacleNames[static_cast<int>(Obstacle::kCount)];

// A script counts as its interpreter. What was read of files is added to `read_bytes`.
Obstacle find_obstacle(const char *path, int64_t &read_bytes);

// With the library in its environment such a program would fail or complain, or it isn't wanted there; the others carry
// it to those that they start.
inline bool breaks(Obstacle obstacle) {
  return obstacle == Obstacle::kMusl || obstacle == Obstacle::kMachine || obstacle == Obstacle::kLeftOut ||
         obstacle == Obstacle::kDropped;
}

// The running program was built by Go, which calls the kernel without libc.
bool is_go_program();

}  // namespace tailrace
