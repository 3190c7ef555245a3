// See tag.h.
#include "tag.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "command.h"
#include "core_here.h"
#include "environment.h"
#include "fault.h"
#include "words.h"

namespace tailrace::launcher {

int execute_tagged(const TagOptions &options) {
  constexpr const char *kName = "TAILRACE_TAGS";
  Environment environment = Environment::of_this_process();
  std::string tags = options.tags;
  try {
    // A traced process has its tags in the core, which lays these over them.
    tags = merge_tags(setting_by(environment.get(kName), kName), options.tags);
  } catch (const Fault &fault) {
    say(in_one_line(std::string(kName) + " is left out: " + fault.what()));
  }
  if (!tags.empty()) environment.set(kName, tags);
  std::vector<char *> words;
  for (const std::string &word : options.command) words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  ::execvpe(words[0], words.data(), environment.pointers().data());
  const int error = errno;
  say(options.command[0] + ": " + (error == ENOENT ? "command not found" : std::strerror(error)));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace tailrace::launcher
