// Follows programs that can't be preloaded from outside, by ptrace(2): stopped at each system call, recorded as a
// traced process would record itself.
//
// Processes: the launcher starts one that waits for requests (format/follow_request.h). It forks a follower for each
// program, which follows that and all it starts, but for programs that the core enters, until they end.
//
// Invariants: a followed program goes on when its follower dies, at any moment, as if it had never been followed, since
// PTRACE_O_EXITKILL is not set and no seccomp filter is installed. It has no further child, descriptor, signal or right
// less: a program that gives privileges, or wants to trace, is let go before it does so.
//
// Rejected: a seccomp filter that stops only calls on descriptors (SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF), though
// reads and writes would then cost nothing and a stop costs 6 us:
// - without CAP_SYS_ADMIN it needs no_new_privs, for good: sudo, ping and a set-uid starter lose their rights;
// - with its follower gone each such call fails with ENOSYS, so one SIGKILL breaks the program and all it has started;
// - every descendant inherits it, also preloaded ones and daemons that outlive the run;
// - a signal between notification and receipt ends the call by EINTR, also a close;
// - a second listener is refused with EBUSY, and runc, crun and Podman install one.
// Also rejected: one follower a node, since ptrace is served by one thread. With CAP_BPF eBPF could do the same without
// stops (tracepoints sys_enter and sys_exit); it would need libbpf, BTF, and a helper with file capabilities at each
// site.
#pragma once

#include <sys/types.h>

#include <string>

#include "foreign_journal.h"
#include "format/follow_request.h"

namespace tailrace::launcher {

class Environment;

// The process that waits for requests, from its making until it is destroyed; what is followed then is followed on.
class Following {
 public:
  Following(const std::string &run_dir, const Environment &environment);
  ~Following();
  Following(const Following &) = delete;
  Following &operator=(const Following &) = delete;

  bool is_there() const { return lifeline_ >= 0; }
  // As spawn/follow.h, for the next child of the calling thread. False: it is not followed.
  bool ask(const std::string &tags) const;

 private:
  std::string socket_;
  int lifeline_ = -1;
  pid_t pid_ = 0;
};

// In a process of its own: follows what the request is for, and does not return before the last of it has ended.
void follow(const JournalPlace &place, const FollowRequest &request, const std::string &tags, int connection);

}  // namespace tailrace::launcher
