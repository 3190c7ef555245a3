// The environment of a program that is followed from outside: the text of /proc/PID/environ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tailrace::launcher {

// The value of a variable.
std::optional<std::string> variable(const std::string &environment, std::string_view name);

// all: of the process; managed: those of them that are neither the user's nor an adapter's (format/managers.h).
struct ProgramTags {
  std::string all, managed;
};

// The tags of a program that begins. before: those of what it replaces, or was started by.
ProgramTags tags_of_program(std::string environment, const ProgramTags &before);

// How many ranks there are, by the managers' variables; 0: they don't say.
uint32_t world_size(std::string environment);

}  // namespace tailrace::launcher
