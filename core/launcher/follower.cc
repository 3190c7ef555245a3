// See follower.h: what follows one program and all that it starts.
#include "follower.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "followed_process.h"
#include "format/path_patterns.h"
#include "program_environment.h"

namespace tailrace::launcher {
namespace {

// No PTRACE_O_EXITKILL: what is followed outlives us.
constexpr unsigned long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                                   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
constexpr int kSystemCallStop = SIGTRAP | 0x80;

// ptrace(2). Its wrapper's header and the kernel's, which has more, can't be used together.
long trace(long request, int tid, unsigned long address = 0, unsigned long data = 0) {
  return ::syscall(SYS_ptrace, request, tid, address, data);
}

unsigned long event_message(int tid) {
  unsigned long message = 0;
  trace(PTRACE_GETEVENTMSG, tid, 0, reinterpret_cast<unsigned long>(&message));
  return message;
}

class Follower {
 public:
  Follower(const JournalPlace &place, const FollowRequest &request, std::string tags)
      : place_(place), choice_{place.follows_unseen, place.follows}, request_(request), tags_{std::move(tags), ""} {}

  bool begin() { return trace(PTRACE_SEIZE, request_.tid, 0, kOptions) == 0; }

  void run() {
    int status;
    for (;;) {
      const int tid = ::waitpid(-1, &status, __WALL);
      if (tid < 0 && errno == EINTR) continue;
      if (tid < 0) return;
      if (WIFSTOPPED(status)) {
        stopped(tid, status);
      } else {
        threads_.erase(tid);  // without an exit stop it was killed
        if (processes_.erase(tid) != 0) continue;
      }
    }
  }

 private:
  struct Thread {
    std::shared_ptr<FollowedProcess> process;  // null before its program is executed
    ProgramTags tags;
    PendingCall call;
    bool is_waiting_for_child = false;  // a process that starts a program, and is no program to be followed
    bool is_none_of_ours = false;       // a thread of such a process
    bool is_early = false;              // it stopped before its maker told of it, and waits for that
  };

  void resume(int tid, const Thread &thread, int signal = 0) {
    const bool stops = thread.process != nullptr;
    trace(stops ? PTRACE_SYSCALL : PTRACE_CONT, tid, 0, static_cast<unsigned long>(signal));
  }

  void let_go(int tid) {
    trace(PTRACE_DETACH, tid);
    threads_.erase(tid);
  }

  // What stops first: the thread of the request, or a child that was made by what is followed.
  Thread &thread_of(int tid) {
    const auto known = threads_.find(tid);
    if (known != threads_.end()) return known->second;
    Thread thread;
    thread.tags = tags_;
    thread.is_waiting_for_child = tid == request_.tid && request_.kind == FollowKind::kChild;
    return threads_.emplace(tid, std::move(thread)).first->second;
  }

  void stopped(int tid, int status) {
    const bool is_early = threads_.count(tid) == 0 && tid != request_.tid;
    Thread &thread = thread_of(tid);
    if (is_early) {
      thread.is_early = true;
      return;
    }
    const int signal = WSTOPSIG(status), event = status >> 16;
    if (thread.is_none_of_ours && event == PTRACE_EVENT_STOP) return let_go(tid);
    switch (event) {
      case PTRACE_EVENT_FORK:
      case PTRACE_EVENT_VFORK:
      case PTRACE_EVENT_CLONE: return forked(tid, thread);
      case PTRACE_EVENT_EXEC: return executed(tid);
      case PTRACE_EVENT_EXIT: return exiting(tid, thread);
      case PTRACE_EVENT_STOP:
        // SIGSTOP and the like stop it until SIGCONT; the first stop of a new thread is none of them.
        if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
          trace(PTRACE_LISTEN, tid);
        } else {
          resume(tid, thread);
        }
        return;
      default: break;
    }
    if (signal != kSystemCallStop) return resume(tid, thread, signal);
    if (thread.process == nullptr) return resume(tid, thread);
    struct ptrace_syscall_info info = {};
    if (trace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, reinterpret_cast<unsigned long>(&info)) <= 0)
      return resume(tid, thread);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == kArchitecture) {
      if (!may_enter(tid, info)) return;
      thread.call = thread.process->enter(tid, info);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && thread.call.is_known) {
      thread.process->leave(tid, thread.call, info.exit.rval);
      thread.call.is_known = false;
    } else {
      thread.call.is_known = false;
    }
    resume(tid, thread);
  }

  // False: the thread was let go, since the call would have another result in a program that is followed.
  bool may_enter(int tid, const ptrace_syscall_info &info) {
    const auto *a = info.entry.args;
    if (info.entry.nr == SYS_ptrace) {
      if (a[0] == PTRACE_TRACEME) return let_go(tid), false;
      if (a[0] == PTRACE_ATTACH || a[0] == PTRACE_SEIZE) give_to_tracer(static_cast<int>(a[1]), tid);
    }
    const bool by_descriptor = info.entry.nr == SYS_execveat;
    if (info.entry.nr != SYS_execve && !by_descriptor) return true;
    const Tracee tracee(tid);
    const auto path = tracee.read_path(a[by_descriptor]);
    const int dirfd = by_descriptor ? static_cast<int>(a[0]) : AT_FDCWD;
    // The kernel gives no privileges to a program whose tracer lacks them.
    if (!path || !gives_privileges(tracee.path_from_here(dirfd, *path).c_str())) return true;
    threads_.at(tid).process->execute(tid, {}, tracee.named(dirfd, *path, true), Obstacle::kSetuid, "");
    return let_go(tid), false;
  }

  // Another tracer wants a thread that is followed.
  void give_to_tracer(int wanted, int asking) {
    if (wanted == asking || threads_.count(wanted) == 0) return;
    int status;
    if (trace(PTRACE_INTERRUPT, wanted) != 0) return;
    if (::waitpid(wanted, &status, __WALL) == wanted && WIFSTOPPED(status)) let_go(wanted);
  }

  void forked(int tid, Thread &thread) {
    const int child = static_cast<int>(event_message(tid)), process_of_child = Tracee(child).process();
    Thread &next = thread_of(child);
    next.tags = thread.tags;
    next.is_waiting_for_child = false;
    if (thread.is_waiting_for_child) {
      next.is_none_of_ours = process_of_child == Tracee(tid).process();
      const bool is_early = next.is_early;
      next.is_early = false;
      if (is_early && next.is_none_of_ours)
        let_go(child);
      else if (is_early)
        resume(child, next);
      return let_go(tid);
    }
    if (thread.process != nullptr && process_of_child == thread.process->pid()) {
      next.process = thread.process;
      ++next.process->threads;
      next.process->begin_thread(child);
    } else if (thread.process != nullptr) {
      next.process = std::make_shared<FollowedProcess>(place_, child, ended_);
      thread.process->fork(tid, thread.call.t0, child);
      follow(child, next, true);
    }
    if (next.is_early) resume(child, next);
    next.is_early = false;
    resume(tid, thread);
  }

  // False: there can be no journal.
  bool follow(int tid, Thread &thread, bool forked) {
    const bool is_of_request = tid == request_.pid && request_.kind == FollowKind::kCaller;
    if (!thread.process->begin(thread.tags.all, is_of_request ? request_.earlier : EarlierImage{}, forked)) {
      thread.process = nullptr;
      return false;
    }
    thread.process->threads = 1;
    processes_.insert_or_assign(tid, thread.process);
    return true;
  }

  void executed(int tid) {
    const int before = static_cast<int>(event_message(tid));
    const auto caller = threads_.find(before);
    if (caller != threads_.end() && before != tid) {
      // A thread that was not the first has taken the place of all others, and its number.
      Thread moved = std::move(caller->second);
      threads_.erase(caller);
      threads_.insert_or_assign(tid, std::move(moved));
    }
    Thread &thread = thread_of(tid);
    const Tracee tracee(tid);
    const Environment environment = parsed_environment(tracee.contents("environ"));
    int64_t bytes_read = 0;
    const std::string program = "/proc/" + std::to_string(tid) + "/exe";
    const char *preload = environment.get("LD_PRELOAD");
    const ProgramLook look = look_at_program(program.c_str(), choice_.needs(), bytes_read);
    const bool is_preloaded = look.obstacle == Obstacle::kNone && environment.get("TAILRACE_RUN") && preload &&
                              string_view(preload).find("libtailrace.so") != string_view::npos &&
                              !is_wanted(tracee, program, look);
    thread.tags = tags_of_program(environment, thread.tags);
    if (thread.process != nullptr) {
      thread.process->threads = 1;
      const FileName file = tracee.named(AT_FDCWD, tracee.link("exe"), true);
      if (!is_preloaded) thread.process->execute(tid, thread.call, file, Obstacle::kNone, thread.tags.all);
    }
    thread.call = {};
    if (is_preloaded) return let_go(tid);
    if (thread.process == nullptr) {
      thread.process = std::make_shared<FollowedProcess>(place_, tid, ended_);
      if (!follow(tid, thread, false)) return let_go(tid);
    }
    resume(tid, thread);
  }

  // As the core would ask for it (spawn/injection.cc): by the path that was executed, which may be a script's, or by
  // the file.
  bool is_wanted(const Tracee &tracee, const std::string &program, const ProgramLook &look) const {
    if (!choice_.is_any()) return false;
    if (choice_.wants(program.c_str(), look)) return true;
    const auto executed = tracee.read_path(tracee.auxiliary(AT_EXECFN));
    return executed && (matches_any_pattern(*executed, place_.follows) ||
                        choice_.wants(tracee.path_from_here(AT_FDCWD, *executed).c_str(), look));
  }

  void exiting(int tid, Thread &thread) {
    const int status = static_cast<int>(event_message(tid));
    if (thread.process != nullptr) {
      const bool is_last = --thread.process->threads <= 0;
      thread.process->end_thread(tid, status, is_last);
    }
    trace(PTRACE_CONT, tid);
  }

  const JournalPlace &place_;
  const FollowChoice choice_;
  const FollowRequest request_;
  const ProgramTags tags_;
  std::map<int, Thread> threads_;
  std::map<int, std::shared_ptr<FollowedProcess>> processes_;
  EndedAccounts ended_;
};

}  // namespace

void follow(const JournalPlace &place, const FollowRequest &request, const std::string &tags, int connection) {
  FollowAnswer answer{::getpid()};
  char go;
  if (::send(connection, &answer, sizeof answer, MSG_NOSIGNAL) < 0 || ::recv(connection, &go, 1, 0) != 1) return;
  Follower follower(place, request, tags);
  const bool begun = follower.begin();
  if (!begun) answer.pid = 0;
  ::send(connection, &answer, sizeof answer, MSG_NOSIGNAL);
  ::close(connection);
  if (begun) follower.run();
}

}  // namespace tailrace::launcher
