// layers/gpu_activity.h, with the records as CUDA 12 writes them: later versions of those that are read. In builds with
// TAILRACE_CUPTI; tests/integration/test_gpu.py runs it.
#include "layers/gpu_activity.h"

#include <gtest/gtest.h>

#include <string>

using namespace tailrace;

namespace {

template <class Record>
Record made(CUpti_ActivityKind kind) {
  Record r = {};
  r.kind = kind;
  r.start = 1000;
  r.end = 1500;
  r.deviceId = 2;
  r.streamId = 7;
  return r;
}

template <class Record>
GpuActivity read(const Record &r) {
  return read_activity(reinterpret_cast<const CUpti_Activity &>(r));
}

std::string text_of(void (*write)(const GpuActivity &, Writer &), const GpuActivity &activity) {
  char room[256];
  Writer out(room, sizeof room);
  write(activity, out);
  return std::string(out.view());
}

TEST(GpuActivity, KernelHasItsPlainName) {
  auto r = made<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  r.name = "_ZN4mesh4stepIfEEvPT_i";
  const GpuActivity a = read(r);
  EXPECT_EQ(a.fn, Fn::kGpuKernel);
  EXPECT_EQ(a.start_ns, 1000U);
  EXPECT_EQ(a.end_ns, 1500U);
  EXPECT_EQ(a.bytes, 0U);
  EXPECT_EQ(text_of(write_gpu_object, a), "mesh::step");
  EXPECT_EQ(text_of(write_gpu_members, a), "\"keys\":\"device=2,stream=7\"");
}

TEST(GpuActivity, KernelWithoutANameHasNoObject) {
  EXPECT_EQ(text_of(write_gpu_object, read(made<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_KERNEL))), "");
}

TEST(GpuActivity, CopyHasItsWayAndBytes) {
  auto r = made<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY);
  r.bytes = 4096;
  for (const auto &[kind, way] : {std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, "host to device"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, "device to host"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, "host to array"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, "array to host"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_ATOA, "array to array"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, "array to device"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_DTOA, "device to array"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, "device to device"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, "host to host"),
                                  std::pair(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, "device to device")}) {
    r.copyKind = static_cast<uint8_t>(kind);
    EXPECT_EQ(text_of(write_gpu_object, read(r)), way);
  }
  EXPECT_EQ(read(r).fn, Fn::kGpuCopy);
  EXPECT_EQ(read(r).bytes, 4096U);
  // A way that a later version has.
  r.copyKind = 200;
  EXPECT_EQ(text_of(write_gpu_object, read(r)), "unknown");
}

TEST(GpuActivity, CopyBetweenDevicesNamesBoth) {
  auto r = made<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  r.bytes = 10;
  r.srcDeviceId = 2;
  r.dstDeviceId = 3;
  EXPECT_EQ(text_of(write_gpu_object, read(r)), "device to device");
  EXPECT_EQ(text_of(write_gpu_members, read(r)), "\"keys\":\"device=2,from=2,stream=7,to=3\"");
  EXPECT_EQ(read(r).bytes, 10U);
}

TEST(GpuActivity, SetHasItsBytes) {
  auto r = made<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  r.bytes = 64;
  const GpuActivity a = read(r);
  EXPECT_EQ(a.fn, Fn::kGpuSet);
  EXPECT_EQ(a.bytes, 64U);
  EXPECT_EQ(text_of(write_gpu_object, a), "");
}

TEST(GpuActivity, OtherKindsAreNone) {
  CUpti_Activity r = {CUPTI_ACTIVITY_KIND_OVERHEAD};
  EXPECT_EQ(read(r).fn, Fn::kNone);
}

TEST(GpuActivity, TimesThatAreMissingAreNoTimes) {
  auto r = made<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  EXPECT_TRUE(has_times(read(r)));
  r.end = 0;
  EXPECT_FALSE(has_times(read(r)));
  r.start = 0;
  EXPECT_FALSE(has_times(read(r)));
}

}  // namespace
