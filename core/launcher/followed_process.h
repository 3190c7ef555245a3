// A process that is followed from outside: which files its descriptors are, and its calls as records of its journal.
//
// Invariants: a descriptor's file is looked up when the descriptor is first used and forgotten when it may have been
// closed, so what a call moved is never said of another file. Calls that are recorded are those that make, name, copy
// and close descriptors, move bytes, lock, wait, and start processes.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>

#include "base/processor_time.h"
#include "foreign_journal.h"
#include "format/program.h"
#include "kernel_numbers.h"
#include "tracee.h"

namespace tailrace::launcher {

// A system call of a thread between its two stops.
struct PendingCall {
  uint64_t number = 0, arguments[6] = {};
  uint64_t t0 = 0;
  bool is_known = false;
  std::optional<FileName> file;                    // what only the begin can tell
  std::optional<std::array<uint64_t, 2>> account;  // of its process, before a wait or an execution
};

// The kernel takes the lower half of an argument that is a descriptor.
inline int descriptor(uint64_t argument) { return static_cast<int>(static_cast<uint32_t>(argument)); }

// What the kernel tells of a process: bytes read and written, and its processor time.
struct ProcessAccount {
  std::optional<std::array<uint64_t, 2>> moved;
  ProcessTime time;
};
// Of processes that have ended, by their pid.
using EndedAccounts = std::map<int, ProcessAccount>;

class FollowedProcess {
 public:
  // begin() before anything else; false where there can be no journal.
  FollowedProcess(const JournalPlace &place, int pid, EndedAccounts &ended)
      : place_(place), pid_(pid), ended_(ended), journal_(place) {}
  // `forked`: a child of this kind of process, which has moved nothing yet.
  bool begin(const std::string &tags, const EarlierImage &earlier, bool forked);
  // It executes another program, which is followed unless there is an obstacle, or leaves our sight.
  void execute(int tid, const PendingCall &call, const FileName &program, Obstacle obstacle, const std::string &tags);

  PendingCall enter(int tid, const ptrace_syscall_info &info);
  void leave(int tid, const PendingCall &call, int64_t ret);
  void fork(int tid, uint64_t begun, int child);
  void begin_thread(int tid);
  // A thread is about to end; the last one's code ends the process.
  void end_thread(int tid, int status, bool is_last);

  int pid() const { return pid_; }
  int threads = 0;

 private:
  using Files = std::map<int, FileName>;

  const FileName *file(const Tracee &tracee, int fd, const SocketAddress *target = nullptr);
  void forget(int fd) { files_.erase(fd); }
  // Its name, and that of all its duplicates, has changed.
  void forget_socket(int fd);
  void record_open(int tid, const PendingCall &call, Fn fn, int dirfd, uint64_t path, uint64_t flags, int64_t ret);
  void record_transfer(int tid, const PendingCall &call, Fn fn, int64_t ret, std::optional<int64_t> at, uint64_t count);
  void record_copy(int tid, const PendingCall &call, Fn fn, int from, int to, uint64_t from_at, uint64_t count,
                   int64_t ret);
  void record_pair(int tid, const PendingCall &call, Fn fn, uint64_t pair, int64_t ret);
  void record_names(int tid, const PendingCall &call, Fn fn, int from_dir, uint64_t from, int to_dir, uint64_t to,
                    int64_t ret);
  void record_named(int tid, const PendingCall &call, Fn fn, int dirfd, uint64_t path, bool follow, int64_t ret);
  void record_copied(int tid, const PendingCall &call, Fn fn, int from, int64_t to);
  void record_lock(int tid, const PendingCall &call, Fn fn, int fd, int64_t ret);
  void record_wait(int tid, const PendingCall &call, Fn fn, int child, int status);
  void record_plain(int tid, const PendingCall &call, Fn fn, const FileName *file, int64_t ret);
  Record returned(const PendingCall &call, Fn fn, int64_t ret) const;
  Record happened(Fn fn, int64_t ret = 0) const;
  void record_start(int tid);
  bool leave_data(int tid, const PendingCall &call, int64_t ret);
  bool leave_names(int tid, const PendingCall &call, int64_t ret);
  // followed_sockets.cc
  bool leave_sockets(int tid, const PendingCall &call, int64_t ret);
  void record_message(int tid, const PendingCall &call, Fn fn, uint64_t count, int64_t ret,
                      const std::optional<SocketAddress> &other);
  void record_messages(int tid, const PendingCall &call, Fn fn, int64_t ret);
  void record_made(int tid, const PendingCall &call, Fn fn, int64_t ret);
  void record_addressed(int tid, const PendingCall &call, Fn fn, int64_t ret);

  // followed_waits.cc
  struct WaitedFor {
    uint64_t timeout_ns;  // UINT64_MAX: none, or not known
    int fd;               // -1: none
    uint32_t number;      // of descriptors
  };
  bool leave_waits(int tid, const PendingCall &call, int64_t ret);
  void record_wait_for(int tid, const PendingCall &call, Fn fn, int64_t ret, const WaitedFor &what);

  const JournalPlace &place_;
  int pid_;
  Files files_;
  EndedAccounts &ended_;
  ProcessAccount account_;         // as of the last thread's end
  std::map<int, uint64_t> began_;  // by thread: ticks
  bool had_threads_ = false;
  ForeignJournal journal_;
};

}  // namespace tailrace::launcher
