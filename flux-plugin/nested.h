// Jobs that are Flux instances (flux batch, flux alloc): the brokers, their shells and Flux's commands stay untraced,
// the batch script is traced, and the inner instance is told to trace its jobs.
//
// A broker hands its environment on to all that it starts, so it gets neither LD_PRELOAD nor TAILRACE_RUN. Instead
//   - the initial program's command is started through env(1), which sets them for it alone;
//   - kInnerVariable has the plugins' paths and the configuration of the inner jobtap as JSON, for etc/modprobe/rc1.d/
//     tailrace.py, which the inner instance's flux-modprobe(1) finds by FLUX_MODPROBE_PATH_APPEND.
#pragma once

#include <flux/core.h>
#include <flux/shell.h>

#include "json.h"

namespace tailrace::flux {

constexpr const char *kInnerVariable = "TAILRACE_FLUX";

// Puts env(1) and `assignments` (strings NAME=VALUE) before the initial program of `flux broker`'s command line in
// `cmd`. False when there is none, or the command line is one that we can't read.
bool wrap_initial_program(flux_shell_t *shell, flux_cmd_t *cmd, const json_t *assignments);

}  // namespace tailrace::flux
