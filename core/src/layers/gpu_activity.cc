// See layers/gpu_activity.h.
#include "layers/gpu_activity.h"

#include <stddef.h>

#include "linker/plain_names.h"

namespace tailrace {
namespace {

using Kernel = CUpti_ActivityKernel4;
using Copy = CUpti_ActivityMemcpy3;
using PeerCopy = CUpti_ActivityMemcpyPtoP2;
using Set = CUpti_ActivityMemset2;

#define SAME_PLACE(Old, New, field) \
  static_assert(offsetof(Old, field) == offsetof(New, field), "records of this version have " #field " elsewhere")
#define SAME_PLACES(Old, New)     \
  SAME_PLACE(Old, New, start);    \
  SAME_PLACE(Old, New, end);      \
  SAME_PLACE(Old, New, deviceId); \
  SAME_PLACE(Old, New, streamId)
SAME_PLACES(Kernel, CUpti_ActivityKernel9);
SAME_PLACE(Kernel, CUpti_ActivityKernel9, name);
SAME_PLACES(Copy, CUpti_ActivityMemcpy5);
SAME_PLACE(Copy, CUpti_ActivityMemcpy5, copyKind);
SAME_PLACE(Copy, CUpti_ActivityMemcpy5, bytes);
SAME_PLACES(PeerCopy, CUpti_ActivityMemcpyPtoP4);
SAME_PLACE(PeerCopy, CUpti_ActivityMemcpyPtoP4, bytes);
SAME_PLACE(PeerCopy, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME_PLACE(PeerCopy, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME_PLACES(Set, CUpti_ActivityMemset4);
SAME_PLACE(Set, CUpti_ActivityMemset4, bytes);
#undef SAME_PLACES
#undef SAME_PLACE

// By CUpti_ActivityMemcpyKind.
constexpr string_view kWays[] = {"unknown",          "host to device", "device to host",  "host to array",
                                 "array to host",    "array to array", "array to device", "device to array",
                                 "device to device", "host to host",   "device to device"};

// Records are packed, and aligned to 8 bytes in the buffer.
template <class Record>
const Record &as(const CUpti_Activity &record) {
  return reinterpret_cast<const Record &>(record);
}

template <class Record>
GpuActivity common(const Record &r, Fn fn) {
  GpuActivity a;
  a.fn = fn;
  a.start_ns = r.start;
  a.end_ns = r.end;
  a.device = r.deviceId;
  a.stream = r.streamId;
  return a;
}

}  // namespace

GpuActivity read_activity(const CUpti_Activity &record) {
  GpuActivity a;
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto &kernel = as<Kernel>(record);
      a = common(kernel, Fn::kGpuKernel);
      a.kernel = kernel.name;
      return a;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto &copy = as<Copy>(record);
      a = common(copy, Fn::kGpuCopy);
      a.bytes = copy.bytes;
      a.way = kWays[copy.copyKind < sizeof kWays / sizeof kWays[0] ? copy.copyKind : 0];
      return a;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto &copy = as<PeerCopy>(record);
      a = common(copy, Fn::kGpuCopy);
      a.bytes = copy.bytes;
      a.way = kWays[CUPTI_ACTIVITY_MEMCPY_KIND_PTOP];
      a.is_between_devices = true;
      a.from = copy.srcDeviceId;
      a.to = copy.dstDeviceId;
      return a;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto &set = as<Set>(record);
      a = common(set, Fn::kGpuSet);
      a.bytes = set.bytes;
      return a;
    }
    default: return a;
  }
}

void write_gpu_object(const GpuActivity &activity, Writer &out) {
  if (activity.kernel) {
    write_plain_name(activity.kernel, out);
  } else {
    out << activity.way;
  }
}

void write_gpu_members(const GpuActivity &activity, Writer &out) {
  (out << "\"keys\":\"device=").number(activity.device);
  if (activity.is_between_devices) (out << ",from=").number(activity.from);
  (out << ",stream=").number(activity.stream);
  if (activity.is_between_devices) (out << ",to=").number(activity.to);
  out << '"';
}

}  // namespace tailrace
