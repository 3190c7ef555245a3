// Jobs that are Flux instances (flux batch, flux alloc, flux start): the brokers, their shells and Flux's commands stay
// untraced, the batch script is traced, and the inner instance is configured to trace its jobs.
//
// A broker's processes inherit its environment, so it gets neither LD_PRELOAD nor TAILRACE_RUN. Instead
//   - traced.cc starts the initial program, and sets its variables from those that the brokers have under other names,
//     prefixed by kInitialPrefix;
//   - kInnerVariable has the plugins' paths and the configuration of the inner jobtap plugin as JSON, for
//     etc/modprobe/rc1.d/tailrace.py, which flux-modprobe(1) of the inner instance finds by FLUX_MODPROBE_PATH_APPEND.
//
// The user's command line, with a --conf of their own, stays as it is. A script's own `flux start` is named by the
// broker's pid, since Flux gives such an instance no place in the path of job ids; it gets its variables by
// TAILRACE_UNTRACED_VARIABLES, which the core adds to excluded programs only.
#pragma once

#include <flux/core.h>

#include "json.h"

namespace tailrace::flux {

constexpr const char *kInnerVariable = "TAILRACE_FLUX";

constexpr const char *kInitialPrefix = "TAILRACE_INITIAL_";

// Inserts `starter` before the initial program in the command line `cmd` of `flux broker` or `flux start`, and adds
// `assignments` (strings NAME=VALUE) to its environment. False without an initial program, and for a flux command or an
// interactive shell, which the broker starts in a special way. Also false for a command line with an unknown option:
// then `unknown` is that option.
bool wrap_initial_program(flux_cmd_t *cmd, const char *starter, const json_t *assignments, const char *&unknown);

}  // namespace tailrace::flux
