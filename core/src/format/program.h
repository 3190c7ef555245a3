// Programs that are about to be started: what keeps this library out of them, by their files.
#pragma once

#include <stdint.h>

#include "base/text.h"

namespace tailrace {

enum class Obstacle : uint8_t {
  kNone,        // also where the file can't be read: execve will report it
  kStatic,      // no dynamic linker, and not linked with libtailrace.a
  kMusl,        // its dynamic linker fails on a glibc library
  kMachine,     // another processor's or word size's
  kSetuid,      // privileges by its file: the dynamic linker ignores preloaded libraries
  kGo,          // static, and makes its system calls itself
  kLeftOut,     // TAILRACE_UNTRACED names it
  kDropped,     // the starting program removed the settings, as TAILRACE_PROPAGATE allows
  kTooLong,     // with the settings its arguments and environment were more than the kernel takes
  kSmallStack,  // its stack is limited to less than the dynamic linker needs to preload a library
  kConfined,    // no program: a seccomp filter would kill the process for the core's calls (hooks/seccomp.h)
  kNoPlace,     // the user that the process has become can neither make a journal nor write to the run
  kCount
};
// Their names in the trace (docs/trace-format.md, "Programs that are not traced").
extern const string_view kObstacleNames[static_cast<int>(Obstacle::kCount)];

// A script counts as its interpreter. Adds the bytes read from files to `read_bytes`.
Obstacle find_obstacle(const char *path, int64_t &read_bytes);

// Whether the file gives who executes it rights that he lacks (set-uid, set-gid, capabilities).
bool gives_privileges(const char *path);

// Whether a program with this obstacle can be followed from outside. One that gives privileges would lose them.
bool is_followable(Obstacle obstacle, const char *path);

// Whether the library must not be in the program's environment: the program would fail or complain, or was left out by
// a setting. The other programs pass it on to those that they start.
inline bool breaks(Obstacle obstacle) {
  return obstacle == Obstacle::kMusl || obstacle == Obstacle::kMachine || obstacle == Obstacle::kLeftOut ||
         obstacle == Obstacle::kDropped || obstacle == Obstacle::kSmallStack;
}

// The running program was built by Go, which calls the kernel without libc.
bool is_go_program();

}  // namespace tailrace
