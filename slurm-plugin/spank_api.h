// Slurm's headers, which declare a plugin's functions neither as C's nor as visible.
#pragma once

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}
#pragma GCC visibility pop
