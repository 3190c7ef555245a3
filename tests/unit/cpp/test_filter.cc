// Filters: the result of examining one agrees with the kernel.
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "format/seccomp_filter.h"

using namespace tailrace;

namespace {

using Code = std::vector<sock_filter>;

constexpr uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
constexpr uint32_t kNumber = offsetof(seccomp_data, nr), kArch = offsetof(seccomp_data, arch);
constexpr uint32_t kFirstArgument = offsetof(seccomp_data, args[0]);
constexpr uint16_t kEqual = BPF_JMP | BPF_JEQ | BPF_K, kReturn = BPF_RET | BPF_K;

sock_filter op(uint16_t code, uint32_t k, uint8_t yes = 0, uint8_t no = 0) { return {code, yes, no, k}; }

FilterVerdict examine(const Code &code) { return examine_filter(code.data(), code.size()); }

// The result of getppid(argument) in a process under the filter.
enum class Fate { kDone, kRefused, kDead };

Fate fate_under(const Code &code, long argument) {
  pid_t pid = fork();
  if (pid == 0) {
    sock_fprog program = {static_cast<unsigned short>(code.size()), const_cast<sock_filter *>(code.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
    errno = 0;
    long ret = syscall(SYS_getppid, argument);
    _exit(ret > 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << "the kernel takes no such filter";
  if (WIFSIGNALED(status)) return Fate::kDead;
  return WEXITSTATUS(status) ? Fate::kRefused : Fate::kDone;
}

// The filter acts on getppid alone, which is one of the core's calls.
void check(const Code &code, long argument = 0) {
  Fate fate = fate_under(code, argument);
  FilterVerdict verdict = examine(code);
  EXPECT_EQ(verdict.deadly, fate == Fate::kDead);
  if (!verdict.deadly) {
    EXPECT_EQ(verdict.refuses, fate == Fate::kRefused);
  }
}

Code acting(uint32_t action) {
  return {op(kLoad, kNumber), op(kEqual, SYS_getppid, 0, 1), op(kReturn, action), op(kReturn, SECCOMP_RET_ALLOW)};
}

TEST(Filter, ActionsAreTheKernels) {
  for (uint32_t action : {SECCOMP_RET_ALLOW, SECCOMP_RET_LOG, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_TRACE,
                          SECCOMP_RET_TRAP, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_PROCESS}) {
    SCOPED_TRACE(action);
    check(acting(action));
  }
}

TEST(Filter, AFalseSuccessIsDeadly) { EXPECT_TRUE(examine(acting(SECCOMP_RET_ERRNO)).deadly); }

TEST(Filter, AUserNotificationIsDeadly) { EXPECT_TRUE(examine(acting(SECCOMP_RET_USER_NOTIF)).deadly); }

TEST(Filter, ArithmeticIsTheKernels) {
  struct Row {
    uint16_t operation;
    uint32_t k, result;  // of getppid's number
  };
  constexpr uint32_t n = SYS_getppid;
  for (Row row : {Row{BPF_ADD, 5, n + 5}, Row{BPF_SUB, n, 0}, Row{BPF_MUL, 3, n * 3}, Row{BPF_DIV, 7, n / 7},
                  Row{BPF_AND, 0xF0, n & 0xF0}, Row{BPF_OR, 0x1000, n | 0x1000}, Row{BPF_XOR, 0xFF, n ^ 0xFF},
                  Row{BPF_LSH, 4, n << 4}, Row{BPF_RSH, 2, n >> 2}, Row{BPF_NEG, 0, 0 - n}}) {
    SCOPED_TRACE(row.operation);
    for (uint32_t expected : {row.result, row.result + 1}) {
      for (bool by_x : {false, true}) {
        auto source = static_cast<uint16_t>(by_x && row.operation != BPF_NEG ? BPF_X : BPF_K);
        check({op(kLoad, kNumber), op(kEqual, n, 1, 0), op(kReturn, SECCOMP_RET_ALLOW), op(BPF_LDX | BPF_IMM, row.k),
               op(static_cast<uint16_t>(BPF_ALU | row.operation | source), row.k), op(kEqual, expected, 1, 0),
               op(kReturn, SECCOMP_RET_ERRNO | EPERM), op(kReturn, SECCOMP_RET_KILL_PROCESS)});
      }
    }
  }
}

TEST(Filter, ComparisonsAreTheKernels) {
  constexpr uint32_t n = SYS_getppid;
  for (int comparison : {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET}) {
    for (uint32_t k : {n - 1, n, n + 1, ~n, 0U}) {
      for (int source : {BPF_K, BPF_X}) {
        SCOPED_TRACE(comparison);
        check({op(kLoad, kNumber), op(kEqual, n, 1, 0), op(kReturn, SECCOMP_RET_ALLOW), op(BPF_LDX | BPF_IMM, k),
               op(static_cast<uint16_t>(BPF_JMP | comparison | source), k, 0, 1), op(kReturn, SECCOMP_RET_KILL_PROCESS),
               op(kReturn, SECCOMP_RET_ERRNO | EPERM)});
      }
    }
  }
}

TEST(Filter, ScratchMemoryKeepsValues) {
  constexpr uint32_t n = SYS_getppid;
  check({op(kLoad, kNumber), op(BPF_ST, 3), op(BPF_LD | BPF_IMM, 7), op(BPF_MISC | BPF_TAX, 0),
         op(BPF_LDX | BPF_MEM, 3), op(BPF_MISC | BPF_TXA, 0), op(kEqual, n, 0, 1),
         op(kReturn, SECCOMP_RET_KILL_PROCESS), op(kReturn, SECCOMP_RET_ALLOW)});
}

TEST(Filter, TheArchitectureIsThisMachines) {
#if defined(__x86_64__)
  constexpr uint32_t kMine = AUDIT_ARCH_X86_64;
#else
  constexpr uint32_t kMine = AUDIT_ARCH_AARCH64;
#endif
  Code code = {op(kLoad, kArch), op(kEqual, kMine, 1, 0), op(kReturn, SECCOMP_RET_KILL_PROCESS),
               op(kReturn, SECCOMP_RET_ALLOW)};
  check(code);
}

// The action depends on an argument: the core's call may have the deadly one.
TEST(Filter, EveryPathThatArgumentsAllowIsTaken) {
  Code code = {op(kLoad, kNumber),
               op(kEqual, SYS_getppid, 0, 4),
               op(kLoad, kFirstArgument),
               op(kEqual, 77, 0, 1),
               op(kReturn, SECCOMP_RET_KILL_PROCESS),
               op(kReturn, SECCOMP_RET_ERRNO | EPERM),
               op(kReturn, SECCOMP_RET_ALLOW)};
  EXPECT_EQ(fate_under(code, 77), Fate::kDead);
  EXPECT_EQ(fate_under(code, 78), Fate::kRefused);
  EXPECT_TRUE(examine(code).deadly);
  code[4] = op(kReturn, SECCOMP_RET_ALLOW);
  EXPECT_FALSE(examine(code).deadly);
  EXPECT_TRUE(examine(code).refuses);
}

TEST(Filter, AnInvalidFilterIsDeadly) {
  EXPECT_TRUE(examine({}).deadly);
  EXPECT_TRUE(examine({op(kLoad, kNumber)}).deadly) << "runs off its end";
  EXPECT_TRUE(examine({op(BPF_JMP | BPF_JA, 0xFFFFFFFF)}).deadly);
}

// 2^40 paths: the examination still ends, and in doubt the filter is deadly.
TEST(Filter, TooManyPathsAreDeadly) {
  Code code;
  for (int i = 0; i < 40; ++i) {
    code.push_back(op(kLoad, kFirstArgument + 4 * static_cast<uint32_t>(i % 12)));
    code.push_back(op(kEqual, static_cast<uint32_t>(i), 0, 1));
    code.push_back(op(BPF_ALU | BPF_ADD | BPF_K, 1));
  }
  code.push_back(op(kReturn, SECCOMP_RET_ALLOW));
  EXPECT_TRUE(examine(code).deadly);
}

TEST(Filter, TheyAreCountedAsTheKernelCounts) {
  std::string line, expected = "0";
  for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
    if (line.rfind("Seccomp_filters:", 0) == 0) expected = line.substr(17);
  }
  long bytes = 0;
  EXPECT_EQ(read_thread_status(bytes).filters, std::stol(expected));
  EXPECT_GT(bytes, 500);
}

}  // namespace
