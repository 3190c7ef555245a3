// See followed_process.h.
#include "followed_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "format/lock_kind.h"
#include "name_key.h"
#include "program_environment.h"

namespace tailrace::launcher {
namespace {

constexpr size_t kMembersBytes = 32 * 1024;

bool is_wait(uint64_t number) { return number == SYS_wait4 || number == SYS_waitid; }

bool is_execution(uint64_t number) { return number == SYS_execve || number == SYS_execveat; }

// Of a call that failed only the name is known.
FileName without_file(FileName name) {
  name.identity = FileIdentity{};
  name.hash = file_hash(name.path, name.identity);
  return name;
}

}  // namespace

bool FollowedProcess::begin(const std::string &tags, const EarlierImage &earlier, bool forked) {
  if (!journal_.begin(pid_, tags, earlier)) return false;
  begin_thread(pid_);
  const auto account = Tracee(pid_).account();
  Ledger &ledger = journal_.ledger();
  for (int way = 0; way < 2 && account && !forked; ++way) ledger.base[way] = (*account)[way];
  ledger.known = account && journal_.may_have_account() ? kKnown : kUnknown;
  record_start(pid_);
  return true;
}

// What the process's account has more than when it made the call; none where it was not read then.
static std::optional<std::array<uint64_t, 2>> moved_since(int tid, const PendingCall &call) {
  if (!call.account) return std::nullopt;
  const std::array<uint64_t, 2> &before = *call.account;
  const auto now = Tracee(tid).account();
  if (!now) return std::nullopt;
  return std::array<uint64_t, 2>{(*now)[0] - before[0], (*now)[1] - before[1]};
}

// Of a call that has just returned.
Record FollowedProcess::returned(const PendingCall &call, Fn fn, int64_t ret) const {
  Record record;
  record.fn = fn;
  record.t0 = call.t0;
  record.t1 = journal_.now();
  record.ret = ret;
  return record;
}

Record FollowedProcess::happened(Fn fn, int64_t ret) const {
  Record record;
  record.fn = fn;
  record.t0 = record.t1 = journal_.now();
  record.ret = ret;
  return record;
}

void FollowedProcess::record_start(int tid) {
  const Tracee tracee(tid);
  std::vector<char> text(kMembersBytes);
  Writer w(text.data(), text.size());
  w << "\"ppid\":";
  w.number(tracee.parent());
  w << ",\"exe\":";
  const std::string exe = tracee.link("exe");
  w.json(recorded_path(place_.hasher, exe, true));
  w << ",\"cwd\":";
  w.json(recorded_path(place_.hasher, tracee.link("cwd"), true));
  const uint32_t size = managed_tags(parsed_environment(tracee.contents("environ"))).world_size;
  if (size != 0) (w << ",\"world_size\":").number(size);
  w << ",\"tracer\":\"ptrace\",\"argv\":[";
  Redactor redactor(place_.redaction, &place_.hasher, exe);
  const std::string line = tracee.contents("cmdline");
  size_t whole = w.size();
  for (size_t at = 0; at < line.size();) {
    if (at != 0) w << ',';
    w << '"';
    redactor.write(w, line.c_str() + at, [](Writer &out, string_view part) { out.json_part(part); });
    w << '"';
    if (w.overflowed() || w.room() < 16) break;
    whole = w.size();
    at = line.find('\0', at);
    if (at == std::string::npos) break;
    ++at;
  }
  w.truncate(whole);
  w << ']';
  const Record record = happened(Fn::kStart);
  const std::string members(w.view());
  journal_.add(tid, record, &members);
}

void FollowedProcess::execute(int tid, const PendingCall &call, const FileName &program, Obstacle obstacle,
                              const std::string &tags) {
  files_.clear();
  // What the kernel itself reads of the program is none of its own I/O.
  if (const auto read = moved_since(tid, call)) {
    for (int way = 0; way < 2; ++way) journal_.ledger().base[way] += (*read)[way];
  }
  Record record = happened(Fn::f_execve);
  record.file = &program;
  record.number2 = static_cast<uint64_t>(obstacle);
  journal_.add(tid, record);
  if (obstacle != Obstacle::kNone) return;
  journal_.set_tags(tags);
  record_start(tid);
}

const FileName *FollowedProcess::file(const Tracee &tracee, int fd, const SocketAddress *target) {
  const auto known = files_.find(fd);
  if (known != files_.end()) return &known->second;
  auto found = tracee.open_file(fd);
  if (found && found->identity.type == FileType::kSocket) found = tracee.with_ends(fd, std::move(*found), target);
  return found ? &files_.emplace(fd, std::move(*found)).first->second : nullptr;
}

PendingCall FollowedProcess::enter(int tid, const ptrace_syscall_info &info) {
  PendingCall call;
  call.number = info.entry.nr;
  for (int i = 0; i < 6; ++i) call.arguments[i] = info.entry.args[i];
  call.is_known = true;
  const Tracee tracee(tid);
  const uint64_t *a = call.arguments;
  switch (call.number) {
    case SYS_close: file(tracee, descriptor(a[0])); break;
#ifdef SYS_unlink
    case SYS_unlink:
    case SYS_rmdir:
      if (const auto path = tracee.read_path(a[0])) call.file = tracee.named(AT_FDCWD, *path, false);
      break;
#endif
    case SYS_unlinkat:
      if (const auto path = tracee.read_path(a[1])) call.file = tracee.named(descriptor(a[0]), *path, false);
      break;
    default: break;
  }
  if ((is_wait(call.number) && threads == 1) || is_execution(call.number)) call.account = tracee.account();
  call.t0 = journal_.now();
  return call;
}

void FollowedProcess::record_plain(int tid, const PendingCall &call, Fn fn, const FileName *file, int64_t ret) {
  Record record = returned(call, fn, ret);
  record.file = file;
  journal_.add(tid, record);
}

void FollowedProcess::record_open(int tid, const PendingCall &call, Fn fn, int dirfd, uint64_t path, uint64_t flags,
                                  int64_t ret) {
  Record record = returned(call, fn, ret);
  record.count = flags;
  const Tracee tracee(tid);
  std::optional<FileName> missing;
  if (ret >= 0) {
    forget(static_cast<int>(ret));
    record.file = file(tracee, static_cast<int>(ret));
  } else if (const auto text = tracee.read_path(path)) {
    missing = without_file(tracee.named(dirfd, *text, true));
    record.file = &*missing;
  }
  journal_.add(tid, record);
}

void FollowedProcess::record_transfer(int tid, const PendingCall &call, Fn fn, int64_t ret, std::optional<int64_t> at,
                                      uint64_t count) {
  Record record = returned(call, fn, ret);
  record.count = count;
  const Tracee tracee(tid);
  const int fd = descriptor(call.arguments[0]);
  record.file = file(tracee, fd);
  if (record.file != nullptr && record.file->identity.type == FileType::kRegular) {
    const auto now = at ? std::nullopt : tracee.position(fd);
    record.offset = at ? *at : now ? *now - std::max<int64_t>(ret, 0) : -1;
  }
  journal_.add(tid, record);
}

void FollowedProcess::record_copy(int tid, const PendingCall &call, Fn fn, int from, int to, uint64_t from_at,
                                  uint64_t count, int64_t ret) {
  Record record = returned(call, fn, ret);
  record.count = count;
  const Tracee tracee(tid);
  record.file = file(tracee, from);
  record.file2 = file(tracee, to);
  if (record.file != nullptr && record.file->identity.type == FileType::kRegular) {
    const auto behind = from_at != 0 ? tracee.read<int64_t>(from_at) : tracee.position(from);
    if (behind) record.offset = *behind - std::max<int64_t>(ret, 0);
  }
  journal_.add(tid, record);
}

void FollowedProcess::record_pair(int tid, const PendingCall &call, Fn fn, uint64_t pair, int64_t ret) {
  struct Pair {
    int a, b;
  };
  const Tracee tracee(tid);
  const auto made = ret == 0 ? tracee.read<Pair>(pair) : std::nullopt;
  Record record = returned(call, fn, ret);
  if (made) {
    forget(made->a), forget(made->b);
    record.file = file(tracee, made->a);
    const FileName *other = file(tracee, made->b);
    // Both ends of a pipe are one file.
    if (record.file != nullptr && other != nullptr && other->hash != record.file->hash) record.file2 = other;
  }
  journal_.add(tid, record);
}

void FollowedProcess::record_names(int tid, const PendingCall &call, Fn fn, int from_dir, uint64_t from, int to_dir,
                                   uint64_t to, int64_t ret) {
  const Tracee tracee(tid);
  const auto old_path = tracee.read_path(from), new_path = tracee.read_path(to);
  if (!old_path || !new_path) return;
  FileName b = tracee.named(to_dir, *new_path, false);
  if (ret < 0) b = without_file(std::move(b));
  FileName a = tracee.named(from_dir, *old_path, false);
  // After the call the file has the new name; the record has the same identity for both.
  a.identity = b.identity;
  a.hash = file_hash(a.path, a.identity);
  Record record = returned(call, fn, ret);
  record.file = &a;
  record.file2 = &b;
  journal_.add(tid, record);
}

void FollowedProcess::record_named(int tid, const PendingCall &call, Fn fn, int dirfd, uint64_t path, bool follow,
                                   int64_t ret) {
  const Tracee tracee(tid);
  const auto text = tracee.read_path(path);
  if (!text) return;
  FileName name = tracee.named(dirfd, *text, follow);
  if (ret < 0) name = without_file(std::move(name));
  record_plain(tid, call, fn, &name, ret);
}

void FollowedProcess::record_copied(int tid, const PendingCall &call, Fn fn, int from, int64_t to) {
  const FileName *old = file(Tracee(tid), from);
  record_plain(tid, call, fn, old, to);
  if (to < 0 || to == from) return;
  forget(static_cast<int>(to));
  if (old != nullptr) files_.emplace(static_cast<int>(to), *old);
}

void FollowedProcess::record_lock(int tid, const PendingCall &call, Fn fn, int fd, int64_t ret) {
  Record record = returned(call, fn, ret);
  const Tracee tracee(tid);
  record.file = file(tracee, fd);
  const auto lock = fn == Fn::f_fcntl && ret == 0 ? tracee.read<struct flock>(call.arguments[2]) : std::nullopt;
  if (lock) {
    record.number2 = static_cast<uint64_t>(lock_kind(static_cast<int>(call.arguments[1]), lock->l_type));
    // Where the end of the file was is not known any more.
    const auto from = lock->l_whence == SEEK_SET   ? std::optional<int64_t>(0)
                      : lock->l_whence == SEEK_CUR ? tracee.position(fd)
                                                   : std::nullopt;
    record.count = static_cast<uint64_t>(lock->l_len < 0 ? -lock->l_len : lock->l_len);
    if (from) record.offset = *from + lock->l_start + (lock->l_len < 0 ? lock->l_len : 0);
  } else if (fn == Fn::f_flock) {
    record.number2 = call.arguments[1];
    record.offset = 0;
  }
  journal_.add(tid, record);
}

void FollowedProcess::record_wait(int tid, const PendingCall &call, Fn fn, int child, int status) {
  Record record = returned(call, fn, child);
  record.count = static_cast<uint64_t>(status);
  const auto ended = ended_.find(child);
  // What a wait adds to a process that does nothing else is the child's.
  std::optional<std::array<uint64_t, 2>> moved = moved_since(tid, call);
  ProcessTime time;
  if (ended != ended_.end()) {
    if (!moved) moved = ended->second.moved;
    time = ended->second.time;
    ended_.erase(ended);
  }
  Ledger &ledger = journal_.ledger();
  for (int way = 0; way < 2 && moved; ++way) ledger.reaped[way].fetch_add((*moved)[way]);
  if (!moved) ledger.known = kUnknown;
  if (moved) {
    record.offset = static_cast<int64_t>((*moved)[0]);
    record.number2 = (*moved)[1];
  }
  journal_.add(tid, record, nullptr, &time);
}

void FollowedProcess::fork(int tid, uint64_t begun, int child) {
  PendingCall call;
  call.t0 = begun;
  record_plain(tid, call, Fn::f_fork, nullptr, child);
}

// Calls that move bytes.
bool FollowedProcess::leave_data(int tid, const PendingCall &call, int64_t ret) {
  const uint64_t *a = call.arguments;
  const auto at = std::optional(static_cast<int64_t>(a[3]));
  const auto at_or_here = static_cast<int64_t>(a[3]) == -1 ? std::nullopt : at;
  switch (call.number) {
    case SYS_read: record_transfer(tid, call, Fn::f_read, ret, std::nullopt, a[2]); break;
    case SYS_write: record_transfer(tid, call, Fn::f_write, ret, std::nullopt, a[2]); break;
    case SYS_pread64: record_transfer(tid, call, Fn::f_pread, ret, at, a[2]); break;
    case SYS_pwrite64: record_transfer(tid, call, Fn::f_pwrite, ret, at, a[2]); break;
    case SYS_readv: record_transfer(tid, call, Fn::f_readv, ret, std::nullopt, UINT64_MAX); break;
    case SYS_writev: record_transfer(tid, call, Fn::f_writev, ret, std::nullopt, UINT64_MAX); break;
    case SYS_preadv: record_transfer(tid, call, Fn::f_preadv, ret, at, UINT64_MAX); break;
    case SYS_pwritev: record_transfer(tid, call, Fn::f_pwritev, ret, at, UINT64_MAX); break;
    case SYS_preadv2: record_transfer(tid, call, Fn::f_preadv2, ret, at_or_here, UINT64_MAX); break;
    case SYS_pwritev2: record_transfer(tid, call, Fn::f_pwritev2, ret, at_or_here, UINT64_MAX); break;
    case SYS_vmsplice: record_transfer(tid, call, Fn::f_vmsplice, ret, std::nullopt, UINT64_MAX); break;
    case SYS_sendfile:
      record_copy(tid, call, Fn::f_sendfile, descriptor(a[1]), descriptor(a[0]), a[2], a[3], ret);
      break;
    case SYS_copy_file_range:
      record_copy(tid, call, Fn::f_copy_file_range, descriptor(a[0]), descriptor(a[2]), a[1], a[4], ret);
      break;
    case SYS_splice: record_copy(tid, call, Fn::f_splice, descriptor(a[0]), descriptor(a[2]), a[1], a[4], ret); break;
    case SYS_tee: record_copy(tid, call, Fn::f_tee, descriptor(a[0]), descriptor(a[1]), 0, a[2], ret); break;
    case SYS_mmap: {
      if (ret < 0 || (a[3] & MAP_ANONYMOUS) != 0) break;
      Record record = returned(call, Fn::f_mmap, 1);
      record.file = file(Tracee(tid), descriptor(a[4]));
      record.number2 = (a[2] & UINT32_MAX) | a[3] << 32;
      record.offset = static_cast<int64_t>(a[5]);
      record.count = a[1];
      journal_.add(tid, record);
      break;
    }
    default: return false;
  }
  return true;
}

// Calls on paths, beside those that open them.
bool FollowedProcess::leave_names(int tid, const PendingCall &call, int64_t ret) {
  const uint64_t *a = call.arguments;
  const int dir = descriptor(a[0]);
  switch (call.number) {
#ifdef SYS_rename
    case SYS_rename: record_names(tid, call, Fn::f_rename, AT_FDCWD, a[0], AT_FDCWD, a[1], ret); break;
    case SYS_link: record_names(tid, call, Fn::f_link, AT_FDCWD, a[0], AT_FDCWD, a[1], ret); break;
    case SYS_unlink: record_plain(tid, call, Fn::f_unlink, call.file ? &*call.file : nullptr, ret); break;
    case SYS_rmdir: record_plain(tid, call, Fn::f_rmdir, call.file ? &*call.file : nullptr, ret); break;
    case SYS_mkdir: record_named(tid, call, Fn::f_mkdir, AT_FDCWD, a[0], false, ret); break;
    case SYS_symlink: record_named(tid, call, Fn::f_symlink, AT_FDCWD, a[1], false, ret); break;
#endif
    case SYS_renameat2: record_names(tid, call, Fn::f_renameat2, dir, a[1], descriptor(a[2]), a[3], ret); break;
    case SYS_renameat: record_names(tid, call, Fn::f_renameat, dir, a[1], descriptor(a[2]), a[3], ret); break;
    case SYS_linkat: record_names(tid, call, Fn::f_linkat, dir, a[1], descriptor(a[2]), a[3], ret); break;
    case SYS_unlinkat: record_plain(tid, call, Fn::f_unlinkat, call.file ? &*call.file : nullptr, ret); break;
    case SYS_mkdirat: record_named(tid, call, Fn::f_mkdirat, dir, a[1], false, ret); break;
    case SYS_symlinkat: record_named(tid, call, Fn::f_symlinkat, descriptor(a[1]), a[2], false, ret); break;
    case SYS_mknodat: record_named(tid, call, Fn::f_mknodat, dir, a[1], false, ret); break;
    case SYS_truncate: record_named(tid, call, Fn::f_truncate, AT_FDCWD, a[0], true, ret); break;
    default: return false;
  }
  return true;
}

void FollowedProcess::leave(int tid, const PendingCall &call, int64_t ret) {
  const Tracee tracee(tid);
  const uint64_t *a = call.arguments;
  const int fd = descriptor(a[0]);
  if (leave_data(tid, call, ret) || leave_names(tid, call, ret) || leave_sockets(tid, call, ret) ||
      leave_waits(tid, call, ret)) {
    return;
  }
  switch (call.number) {
#ifdef SYS_open
    case SYS_open: record_open(tid, call, Fn::f_open, AT_FDCWD, a[0], a[1], ret); break;
    case SYS_creat: record_open(tid, call, Fn::f_creat, AT_FDCWD, a[0], O_CREAT | O_WRONLY | O_TRUNC, ret); break;
    case SYS_pipe: record_pair(tid, call, Fn::f_pipe, a[0], ret); break;
    case SYS_dup2: record_copied(tid, call, Fn::f_dup2, fd, ret); break;
#endif
    case SYS_openat: record_open(tid, call, Fn::f_openat, fd, a[1], a[2], ret); break;
    case SYS_openat2: {
      const auto how = tracee.read<uint64_t>(a[2]);
      record_open(tid, call, Fn::f_openat, fd, a[1], how.value_or(0), ret);
      break;
    }
    case SYS_close: {
      const auto known = files_.find(fd);
      if (known != files_.end()) record_plain(tid, call, Fn::f_close, &known->second, ret);
      if (ret != -EBADF) forget(fd);
      break;
    }
    case SYS_close_range: {
      if (ret < 0 || (a[2] & CLOSE_RANGE_CLOEXEC) != 0) break;
      const auto from = files_.lower_bound(static_cast<int>(std::min<uint64_t>(a[0] & UINT32_MAX, INT32_MAX)));
      files_.erase(from, files_.upper_bound(static_cast<int>(std::min<uint64_t>(a[1] & UINT32_MAX, INT32_MAX))));
      break;
    }
    case SYS_dup: record_copied(tid, call, Fn::f_dup, fd, ret); break;
    case SYS_dup3: record_copied(tid, call, Fn::f_dup3, fd, ret); break;
    case SYS_fcntl:
      if (a[1] == F_DUPFD || a[1] == F_DUPFD_CLOEXEC) record_copied(tid, call, Fn::f_fcntl, fd, ret);
      if (is_lock(static_cast<int>(a[1]))) record_lock(tid, call, Fn::f_fcntl, fd, ret);
      break;
    case SYS_flock: record_lock(tid, call, Fn::f_flock, fd, ret); break;
    case SYS_pipe2: record_pair(tid, call, Fn::f_pipe2, a[0], ret); break;
    case SYS_ftruncate: record_plain(tid, call, Fn::f_ftruncate, file(tracee, fd), ret); break;
    case SYS_memfd_create: record_open(tid, call, Fn::f_memfd_create, AT_FDCWD, 0, 0, ret); break;
    case SYS_io_uring_setup:
      record_plain(tid, call, Fn::f_io_uring_setup, nullptr, ret);
      if (ret >= 0) journal_.ledger().unseen_ring = 1;
      break;
    case SYS_wait4: {
      const int status = tracee.read<int>(a[1]).value_or(0);
      if (ret > 0 && (WIFEXITED(status) || WIFSIGNALED(status)))
        record_wait(tid, call, Fn::f_wait4, static_cast<int>(ret), status);
      break;
    }
    case SYS_waitid: {
      const auto info = ret == 0 && (a[3] & WNOWAIT) == 0 ? tracee.read<siginfo_t>(a[2]) : std::nullopt;
      if (!info || info->si_pid == 0) break;
      const int code = info->si_code;
      if (code == CLD_EXITED) record_wait(tid, call, Fn::f_waitid, info->si_pid, (info->si_status & 0xFF) << 8);
      if (code == CLD_KILLED || code == CLD_DUMPED)
        record_wait(tid, call, Fn::f_waitid, info->si_pid, info->si_status | (code == CLD_DUMPED ? 0x80 : 0));
      break;
    }
    default: break;
  }
}

void FollowedProcess::begin_thread(int tid) {
  began_[tid] = journal_.now();
  had_threads_ = had_threads_ || tid != pid_;
}

void FollowedProcess::end_thread(int tid, int status, bool is_last) {
  if (const auto moved = Tracee(tid).account()) account_.moved = moved;
  int64_t bytes_read = 0;
  const ProcessorTime time = stopped_thread_time(tid, bytes_read);
  account_.time.add(time);
  account_.time.run_ns = process_run_ns(pid_);
  if (had_threads_ && time.run_ns >= 0) {
    Record record = happened(Fn::kThread);
    record.t0 = began_.count(tid) != 0 ? began_[tid] : record.t1;
    record.count = static_cast<uint64_t>(time.run_ns);
    record.offset = time.ready_ns;
    journal_.add(tid, record);
  }
  began_.erase(tid);
  if (!is_last) return;
  ended_[pid_] = account_;
  // As for a traced process, one that is killed has no event; its parent's wait tells its end.
  if (!WIFEXITED(status)) return;
  Ledger &ledger = journal_.ledger();
  std::string members;
  if (account_.moved && ledger.is_known()) {
    const auto moved = [&](int way) {
      const uint64_t off = ledger.base[way] + ledger.reaped[way];
      const uint64_t all = (*account_.moved)[way];
      return std::to_string(all > off ? all - off : 0);
    };
    members = "\"rchar\":" + moved(0) + ",\"wchar\":" + moved(1);
  }
  const auto add = [&](const char *key, int64_t ns) {
    if (ns >= 0) members += std::string(members.empty() ? "\"" : ",\"") + key + "\":" + std::to_string(ns);
  };
  add("run_ns", account_.time.run_ns);
  add("ready_ns", account_.time.ready_ns);
  add("ready_of_ns", account_.time.ready_of_ns);
  const Record record = happened(Fn::f__exit, WEXITSTATUS(status));
  journal_.add(tid, record, &members);
}

}  // namespace tailrace::launcher
