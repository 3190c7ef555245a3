// The core in this process, where it is traced itself: a run within a run, or a traced Python program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tailrace::launcher {

// Whether events of this process are being recorded.
bool is_traced();
// The run directory that this process is traced into.
std::optional<std::string> surrounding_run();
// A setting in the core of this process.
std::optional<std::string> setting_here(const char *name);
// A setting by `chosen`, its value in an environment; else by the core of this process. Empty where neither has it.
std::string setting_by(const char *chosen, const char *name);

// rchar and wchar (proc(5)), and the size of the text that they were read from, which the kernel counts after that.
struct KernelAccount {
  int64_t read, written, text_bytes;
};
// whose: "self", "thread-self", a process's number, "self/task/N".
std::optional<KernelAccount> kernel_account(const std::string &whose);

// The I/O of this thread during its life is the tracer's, not the program's.
class OwnIo {
 public:
  OwnIo();
  ~OwnIo();
  OwnIo(const OwnIo &) = delete;
  OwnIo &operator=(const OwnIo &) = delete;

 private:
  std::optional<KernelAccount> before_;
};

}  // namespace tailrace::launcher
