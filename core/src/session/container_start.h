// Containers: what keeps the library harmless in an image, and what brings it there.
//
// A program that makes a container and executes the first one in it (bubblewrap) passes the library on like any other.
// An image's libc may not be able to have it, so it passes on libtailrace-entry.so, which finds out
// (container/entry.cc).
//
// Apptainer and Singularity are Go programs, which start others by raw system calls: no hook puts the settings back,
// and inside of the container there is neither the library nor the run. They bind what a variable names, and set those
// with a prefix inside.
//
// It costs an execve a container. Rejected: variables set by `tailrace run` and at execve, since slurmstepd and other
// Go programs start Apptainer past every hook, and every traced program would see them; words of the command line,
// whose grammar differs between versions. The starter, which calls clone in a constructor, never has the library.
#pragma once

#include <stdint.h>

#include "base/text.h"

namespace tailrace {

// In such a program that is about to run a container: executes it again with these variables, and does not return.
// Returns in any other program, in one that has them, and where the container could fail by them. To be called before
// anything is recorded or hidden; `filters` and `user` as in TAILRACE_PROCESS.
void start_container(char **argv, uint64_t filters, uint64_t user);

// To be called once the settings are read, and at each program's start: the library that it is to be preloaded with.
void remember_root();
// Paths of the start lead elsewhere by now (chroot).
bool has_another_root();
string_view library_for_program();

}  // namespace tailrace
