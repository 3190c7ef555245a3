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
#pragma once

namespace tailrace {

// Where the dynamic linker may be called.
void find_gpu_activity();

}  // namespace tailrace
