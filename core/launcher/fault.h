// What a launcher can't do, as a sentence for the user: what, where, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace tailrace::launcher {

struct Fault : std::runtime_error {
  // The classes of tailrace.errors. kSystem: an error of the system, whose sentence is no whole one.
  enum class Kind { kUsage, kTag, kRun, kTrace, kCore, kSystem };

  Fault(Kind which, const std::string &sentence) : std::runtime_error(sentence), kind(which) {}
  Kind kind;
};

// Throws kSystem with the words for `error`, an errno.
[[noreturn]] void fail_with(int error);

}  // namespace tailrace::launcher
