// `tailrace tag`: executes a command with more tags, for whatever has a wrapper, a prefix or a shell to set.
#pragma once

#include <string>
#include <vector>

namespace tailrace::launcher {

struct TagOptions {
  std::string tags;  // canonical
  std::vector<std::string> command;
};

// Replaces this process by the command. Returns only where that fails, after saying why, with a shell's exit code: 127
// where it is not found, 126 where it can't be executed. Tags in the environment that break the rules are said, and
// left out: they must not keep the command from running.
int execute_tagged(const TagOptions &options);

}  // namespace tailrace::launcher
