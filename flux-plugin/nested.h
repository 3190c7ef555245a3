// Jobs that are Flux instances (flux batch, flux alloc, flux start): the brokers, their shells and Flux's commands stay
// untraced, the batch script is traced, and the inner instance is told to trace its jobs.
//
// A broker hands its environment on to all that it starts, so it gets neither LD_PRELOAD nor TAILRACE_RUN. Instead
//   - the initial program is started by traced.cc, which gives it what the brokers have under other names, with
//     kInitialPrefix before;
//   - kInnerVariable has the plugins' paths and the configuration of the inner jobtap as JSON, for etc/modprobe/rc1.d/
//     tailrace.py, which the inner instance's flux-modprobe(1) finds by FLUX_MODPROBE_PATH_APPEND.
#pragma once

#include <flux/core.h>

#include "json.h"

namespace tailrace::flux {

constexpr const char *kInnerVariable = "TAILRACE_FLUX";

constexpr const char *kInitialPrefix = "TAILRACE_INITIAL_";

// Puts `starter` before the initial program of the command line of `flux broker` or `flux start` in `cmd`, and
// `assignments` (strings NAME=VALUE) into its environment. False when there is none, it is Flux's own or an interactive
// shell, for which the broker has ways of its own, or the command line is one that we can't read: then `unknown` is the
// word.
bool wrap_initial_program(flux_cmd_t *cmd, const char *starter, const json_t *assignments, const char *&unknown);

}  // namespace tailrace::flux
