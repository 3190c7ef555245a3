// What the environment of a program says of its tags, as the core in it reads it at its start.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "environment.h"

namespace tailrace::launcher {

// From the text of /proc/PID/environ.
Environment parsed_environment(const std::string &text);

// all: of the process; managed: those of them that are neither the user's nor an adapter's (format/managers.h).
struct ProgramTags {
  std::string all, managed;
};

// The tags of a program that begins. before: those of what it replaces, or was started by.
ProgramTags tags_of_program(const Environment &environment, const ProgramTags &before);

// The tags that the managers' variables give (format/managers.def), and manager and name of each of these that is set;
// world_size: how many ranks there are, 0: they don't say.
struct ManagedTags {
  std::string tags;
  std::vector<std::pair<std::string, std::string>> variables;
  uint32_t world_size = 0;
};
ManagedTags managed_tags(const Environment &environment);

}  // namespace tailrace::launcher
