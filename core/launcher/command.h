// A command as a shell would run it: found by PATH, its exit code in the shell's convention, our signals passed on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "environment.h"
#include "sealing.h"

namespace tailrace::launcher {

constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr int kSignalled = 128;

struct Command {
  std::vector<std::string> words;
  Environment environment;
  // Signals that this process ignores, but not its caller: the command has their defaults.
  std::vector<int> ignored_here;
  // Called right before it is started, by the thread that starts it.
  std::function<void()> is_about_to_start;
};

// The byte accounting of a command that was waited for (docs/trace-format.md, "accounts").
struct CommandAccount {
  int64_t pid = 0, status = 0, read = 0, written = 0, ns = 0;
  std::string untraced, program;  // why it can't be traced, and which program; empty: it can
};

// Where it goes, if it `is_there`.
struct AccountPlace {
  std::string run_dir;  // empty: nowhere
  std::function<bool()> is_there;
  const SealerThread *sealer = nullptr;
  std::optional<CommandAccount> *account = nullptr;  // gets a copy
};

// Runs the command, waits for it and forwards signals. Returns 128+n for signal n, 127 where it is not found, 126 where
// it can't be executed; says why.
int run_command(const Command &command, const AccountPlace &place = {});

// "exit code 3, " or "exit code 137 (signal 9 (SIGKILL)), "; empty for 0.
std::string end_words(int code);

}  // namespace tailrace::launcher
