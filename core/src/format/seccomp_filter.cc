// See format/seccomp_filter.h.
#include "format/seccomp_filter.h"

#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#include <new>

#include "base/own_memory.h"
#include "base/sys.h"
#include "base/text.h"

namespace tailrace {
namespace {

// All system calls of the core between its start in a process and the process's end; a test compares the list with the
// sources. The last ones are those of libc's functions that the hooks call.
constexpr int kOwnCalls[] = {
    SYS_openat,
    SYS_getdents64,
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_pwrite64,
    SYS_close,
    SYS_lseek,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_getdents64,
    SYS_statx,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_getxattr,
    SYS_flock,
    SYS_fcntl,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_kill,
    SYS_mmap,
    SYS_munmap,
    SYS_madvise,
    SYS_futex,
    SYS_prlimit64,
    SYS_rt_sigprocmask,
    SYS_getrusage,
    SYS_clone,
    SYS_exit,
    SYS_sched_getaffinity,
    SYS_wait4,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_socket,
    SYS_sendto,
    SYS_recvfrom,
    SYS_nanosleep,
    SYS_process_vm_readv,
    SYS_waitid,
    SYS_pipe2,
    SYS_uname,
    SYS_clock_gettime,
    SYS_brk,
    SYS_mprotect,
};

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// The state of a filter at one of its instructions.
struct State {
  size_t at = 0;
  uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {};
  bool a_known = true, x_known = true, known[BPF_MEMWORDS] = {};
};

// All paths through a filter for one call.
class Walk {
 public:
  Walk(const sock_filter *code, size_t count, FilterVerdict &verdict) : code_(code), count_(count), verdict_(verdict) {}

  void run(uint32_t call) {
    call_ = call;
    steps_ = 0;
    waiting_ = 0;
    add(State());
    while (waiting_ && !verdict_.deadly) {
      State s = states_[--waiting_];
      while (!verdict_.deadly && step(s)) {
      }
    }
  }

 private:
  // Filters of libseccomp need a few hundred.
  static constexpr int kMaxSteps = 1 << 16;
  static constexpr int kMaxWaiting = 128;

  void add(const State &s) {
    if (waiting_ == kMaxWaiting) return end(SECCOMP_RET_KILL_PROCESS);
    states_[waiting_++] = s;
  }

  void end(uint32_t action) {
    switch (action & SECCOMP_RET_ACTION_FULL) {
      case SECCOMP_RET_ALLOW:
      case SECCOMP_RET_LOG: return;
      case SECCOMP_RET_TRACE: verdict_.refuses = true; return;
      case SECCOMP_RET_ERRNO:
        verdict_.refuses = true;
        // Error 0 reports success for a call that was not made.
        verdict_.deadly = verdict_.deadly || (action & SECCOMP_RET_DATA) == 0;
        return;
      default: verdict_.deadly = true;
    }
  }

  // False at the end of the path.
  bool step(State &s) {
    if (s.at >= count_ || ++steps_ > kMaxSteps) return end(SECCOMP_RET_KILL_PROCESS), false;
    const sock_filter &i = code_[s.at++];
    bool by_x = BPF_SRC(i.code) == BPF_X;
    switch (BPF_CLASS(i.code)) {
      case BPF_LD: return load(s, i), true;
      case BPF_LDX: return load_x(s, i), true;
      case BPF_ST: return store(s, i.k, s.a, s.a_known), true;
      case BPF_STX: return store(s, i.k, s.x, s.x_known), true;
      case BPF_ALU: return calculate(s, i, by_x), true;
      case BPF_JMP: return jump(s, i, by_x), true;
      case BPF_MISC:
        if (BPF_MISCOP(i.code) == BPF_TAX) {
          s.x = s.a, s.x_known = s.a_known;
        } else {
          s.a = s.x, s.a_known = s.x_known;
        }
        return true;
      default: break;  // BPF_RET
    }
    bool by_a = BPF_RVAL(i.code) == BPF_A;
    end(!by_a ? i.k : s.a_known ? s.a : SECCOMP_RET_KILL_PROCESS);
    return false;
  }

  void load(State &s, const sock_filter &i) {
    switch (BPF_MODE(i.code)) {
      case BPF_IMM: s.a = i.k, s.a_known = true; return;
      case BPF_LEN: s.a = sizeof(seccomp_data), s.a_known = true; return;
      case BPF_MEM: s.a = s.memory[i.k % BPF_MEMWORDS], s.a_known = s.known[i.k % BPF_MEMWORDS]; return;
      default: break;  // BPF_ABS
    }
    s.a_known = i.k == offsetof(seccomp_data, nr) || i.k == offsetof(seccomp_data, arch);
    s.a = i.k == offsetof(seccomp_data, nr) ? call_ : kArchitecture;
  }

  void load_x(State &s, const sock_filter &i) {
    bool remembered = BPF_MODE(i.code) == BPF_MEM;
    bool length = BPF_MODE(i.code) == BPF_LEN;
    s.x = remembered ? s.memory[i.k % BPF_MEMWORDS] : length ? sizeof(seccomp_data) : i.k;
    s.x_known = !remembered || s.known[i.k % BPF_MEMWORDS];
  }

  void store(State &s, uint32_t where, uint32_t value, bool known) {
    s.memory[where % BPF_MEMWORDS] = value;
    s.known[where % BPF_MEMWORDS] = known;
  }

  void calculate(State &s, const sock_filter &i, bool by_x) {
    uint32_t other = by_x ? s.x : i.k;
    s.a_known = s.a_known && (!by_x || s.x_known);
    switch (BPF_OP(i.code)) {
      case BPF_ADD: s.a += other; return;
      case BPF_SUB: s.a -= other; return;
      case BPF_MUL: s.a *= other; return;
      case BPF_OR: s.a |= other; return;
      case BPF_AND: s.a &= other; return;
      case BPF_XOR: s.a ^= other; return;
      case BPF_LSH: s.a = other < 32 ? s.a << other : 0; return;
      case BPF_RSH: s.a = other < 32 ? s.a >> other : 0; return;
      case BPF_NEG: s.a = 0 - s.a; return;
      default: break;  // BPF_DIV; by 0 it ends the filter, and with it the process
    }
    if ((by_x && !s.x_known) || other == 0) return end(SECCOMP_RET_KILL_PROCESS);
    s.a /= other;
  }

  void jump(State &s, const sock_filter &i, bool by_x) {
    if (BPF_OP(i.code) == BPF_JA) {
      s.at += i.k;
      return;
    }
    if (!s.a_known || (by_x && !s.x_known)) {
      State other = s;
      other.at += i.jf;
      if (i.jf != i.jt) add(other);
      s.at += i.jt;
      return;
    }
    uint32_t k = by_x ? s.x : i.k;
    bool is = false;
    switch (BPF_OP(i.code)) {
      case BPF_JEQ: is = s.a == k; break;
      case BPF_JGT: is = s.a > k; break;
      case BPF_JGE: is = s.a >= k; break;
      default: is = (s.a & k) != 0;  // BPF_JSET
    }
    s.at += is ? i.jt : i.jf;
  }

  const sock_filter *code_;
  size_t count_;
  FilterVerdict &verdict_;
  uint32_t call_ = 0;
  int steps_ = 0, waiting_ = 0;
  State states_[kMaxWaiting];
};

}  // namespace

FilterVerdict examine_filter(const sock_filter *code, size_t count) {
  // The thread may have a small stack.
  void *room = own_memory::pages(sizeof(Walk));
  if (!room) return {true, true};
  FilterVerdict verdict;
  auto *walk = new (room) Walk(code, count, verdict);
  for (int call : kOwnCalls) {
    if (!verdict.deadly) walk->run(static_cast<uint32_t>(call));
  }
  own_memory::release(room, sizeof(Walk));
  return verdict;
}

// The number behind a field of /proc/self/status.
static bool take_number_of(string_view status, string_view field, uint64_t &number) {
  const size_t at = status.find(field);
  if (at == string_view::npos) return false;
  string_view rest = slice(status, at + field.size(), status.size() - at - field.size());
  return take_decimal(rest, number);
}

ThreadStatus read_thread_status(long &read_bytes) {
  ThreadStatus out;
  // Not on the stack, which may be small: once in a process's life.
  static char text[4096];
  int fd = sys::open_within_limit("/proc/self/status", O_RDONLY, 0);
  if (fd == -EPERM || fd == -EACCES || fd == -ENOSYS) out.filters = LONG_MAX;
  if (fd < 0) return out;
  long n = sys::read(fd, text, sizeof text);
  sys::close(fd);
  if (n <= 0) return out;
  read_bytes += n;
  string_view all(text, static_cast<size_t>(n));
  uint64_t number;
  // Before Linux 5.9 there is only the mode: 0, or 2 for any number of filters.
  if (take_number_of(all, "\nSeccomp_filters:\t", number) || take_number_of(all, "\nSeccomp:\t", number))
    out.filters = static_cast<long>(number);
  if (take_number_of(all, "\nTracerPid:\t", number)) out.tracer = static_cast<int>(number);
  return out;
}

}  // namespace tailrace
