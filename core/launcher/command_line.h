// The command line of `tailrace run` and `tailrace tag`, which libtailrace-plugin.so exports for the command (main.cc)
// of the same installation. It is no part of the C API, and may change with any version.
#pragma once

namespace tailrace::launcher {

// Does what the arguments of `tailrace` ask for, by the core's library at this path. Its exit code, or kNotDone, with
// nothing done or printed, for what cli/ has to do: help, completion, whatever is wrong with the options, so that their
// words and rules have one place.
using CommandLine = int(int count, char **arguments, const char *library);
constexpr const char kCommandLine[] = "tailrace_command_line";
constexpr int kNotDone = -1;

}  // namespace tailrace::launcher
