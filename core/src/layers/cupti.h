// GPU activity (cat GPU) of CUDA programs, by the activity API of CUPTI (docs.nvidia.com/cupti), in builds with
// TAILRACE_CUPTI:
//
//   constructor           sets CUDA_INJECTION64_PATH to this library, where the layer is chosen and it is not set
//   cuInit                the driver opens that library and calls InitializeInjection
//   InitializeInjection   finds libcupti, gives it our clock, asks for kernels, copies and sets
//   CUPTI's thread        a full buffer ──► gpu_activity.h ──► events
//   exit                  what is left in buffers
//
// Invariants:
// - Nothing is linked, and a process that never comes to cuInit has only the variable.
// - Without libcupti, or after an error of its, there are no events and no message.
// - A forked child never calls CUPTI: the state of the GPU is its parent's.
// - Tags are the process's: CUPTI tells what the GPU did, not which thread or region asked for it.
//
// Rejected: to open libcupti when libcuda is loaded, since that is in the dynamic linker, in programs that never use
// it, and too early or too late for CUPTI; tags of the launching thread, a call of CUPTI for each region; a thread of
// ours that flushes. A second user of CUPTI in a process replaces the first, so the layer is chosen by name alone.
// Before CUDA 11.6 CUPTI takes no clock of ours, so older versions have no events.
#pragma once

namespace tailrace {

// Where the dynamic linker may be called.
void find_gpu_activity();

}  // namespace tailrace
