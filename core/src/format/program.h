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
  // The library is not at its path there, as in a chroot or another mount namespace.
  kUnreachable,
  kUnreadable,    // the process may not read it, once it executes the program
  kNoDescriptor,  // the limit of open files leaves the dynamic linker no descriptor for it
  kCount
};
// Their names in the trace (docs/trace-format.md, "Programs that are not traced").
extern const string_view kObstacleNames[static_cast<int>(Obstacle::kCount)];

// What a program's file tells.
struct ProgramLook {
  Obstacle obstacle = Obstacle::kNone;
  // It can be preloaded, and calls the kernel without libc: linked with libc by Go (cgo), or its code says so.
  bool calls_kernel = false;
};
enum class LookAt : uint8_t {
  kHeaders,  // some KiB
  kCode,     // all of it, until a call of the kernel is found: 0.9 ms a MiB
};
// A script counts as its interpreter. Adds the bytes read from files to `read_bytes`.
ProgramLook look_at_program(const char *path, LookAt part, int64_t &read_bytes);
inline Obstacle find_obstacle(const char *path, int64_t &read_bytes) {
  return look_at_program(path, LookAt::kHeaders, read_bytes).obstacle;
}

// Whether the file gives who executes it rights that he lacks (set-uid, set-gid, capabilities).
bool gives_privileges(const char *path);

// Which programs the user wants followed from outside.
struct FollowChoice {
  bool unseen = false;   // those that are not seen from inside
  string_view patterns;  // others, by their paths

  bool is_any() const { return unseen || !patterns.empty(); }
  LookAt needs() const { return unseen ? LookAt::kCode : LookAt::kHeaders; }
  // `path`: as it is executed; `look` is of it. One that gives privileges would lose them.
  bool wants(const char *path, const ProgramLook &look) const;
};

// Whether the library must not be in the program's environment: the program would fail or complain, or was left out by
// a setting. The other programs pass it on to those that they start.
inline bool breaks(Obstacle obstacle) {
  return obstacle == Obstacle::kMusl || obstacle == Obstacle::kMachine || obstacle == Obstacle::kLeftOut ||
         obstacle == Obstacle::kDropped || obstacle == Obstacle::kSmallStack || obstacle == Obstacle::kUnreachable ||
         obstacle == Obstacle::kUnreadable || obstacle == Obstacle::kNoDescriptor;
}

// The running program was built by Go, which calls the kernel without libc.
bool is_go_program();

}  // namespace tailrace
