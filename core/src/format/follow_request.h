// What a traced process and the launcher's followers say to each other when a program is about to be started that is to
// be followed, by TAILRACE_UNSEEN or TAILRACE_FOLLOW (core/launcher/follower.h).
//
//   process                                    follower (a process of the launcher)
//     connect, FollowRequest, tags ----------->
//     <----------------------------- FollowAnswer: its pid
//     allows it to trace (Yama), one byte ---->  PTRACE_SEIZE
//     <----------------------------- FollowAnswer: its pid, or 0: not followed
//     execve, or posix_spawn
#pragma once

#include <stdint.h>

#include "base/text.h"

namespace tailrace {

constexpr uint32_t kFollowMagic = 0x574F4C46;  // "FLOW"

enum class FollowKind : uint32_t {
  kCaller,  // the calling thread is about to execute the program
  kChild,   // the next process that the calling thread makes is
};

// What the process has recorded before it executes the program, which goes on in the same journals. start_ns 0:
// nothing.
struct EarlierImage {
  uint64_t start_ns, start_monotonic_ns;
  uint32_t segments, mine;  // how many, and the calling thread's
};

struct FollowRequest {
  uint32_t magic;
  FollowKind kind;
  int32_t pid, tid;    // of the caller
  uint32_t tag_bytes;  // behind the request
  EarlierImage earlier;
};

struct FollowAnswer {
  int32_t pid;
};

// In the run's journal directory.
constexpr string_view kFollowSocket = "/unseen.sock";
// The name of a follower's process (PR_SET_NAME), by which the core in a program finds out that this is followed.
constexpr string_view kFollowerName = "tailrace-follow";
// The values of TAILRACE_UNSEEN.
constexpr string_view kFollowAll = "all", kFollowNone = "off";
inline bool is_unseen_choice(string_view text) { return text == kFollowAll || text == kFollowNone; }

}  // namespace tailrace
