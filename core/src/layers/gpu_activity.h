// An activity record of CUPTI as what an event says. The structures that are read are the oldest ones with these
// fields: later versions have them at the same places, which is checked against some of the headers'.
#pragma once

#include <cupti.h>

#include "format/functions.h"

namespace tailrace {

struct GpuActivity {
  Fn fn = Fn::kNone;                  // kNone: another kind of record
  uint64_t start_ns = 0, end_ns = 0;  // by the clock that CUPTI was given; 0: unknown
  const char *kernel = nullptr;       // its symbol
  string_view way;                    // of a copy
  uint64_t bytes = 0;
  uint32_t device = 0, stream = 0;
  bool is_between_devices = false;
  uint32_t from = 0, to = 0;  // then: the devices
};

GpuActivity read_activity(const CUpti_Activity &record);

inline bool has_times(const GpuActivity &a) { return a.start_ns && a.end_ns >= a.start_ns; }

// The object of its event: the kernel's plain name, or the copy's way. Empty where there is none.
void write_gpu_object(const GpuActivity &activity, Writer &out);
// The event's further args, as JSON members.
void write_gpu_members(const GpuActivity &activity, Writer &out);

}  // namespace tailrace
