// linker/unwind.h against glibc's unwinder, by both ways to loaded objects (linker/modules.h).
#include "linker/unwind.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "linker/real.h"

// The core's own looks past its hooks, of which there are none here.
tailrace::DlsymFunction *tailrace::libc_dlsym() { return dlsym; }

namespace tailrace {
namespace {

struct Stacks {
  std::vector<uintptr_t> ours, theirs;
};

__attribute__((noinline)) Stacks both(UnwindRoom &room) {
  void *theirs[2 * kMostNativeFrames];
  const int count = backtrace(theirs, 2 * kMostNativeFrames);
  Registers here;
  TAILRACE_REGISTERS_HERE(here);
  const size_t found = unwind(here, 0, getpid(), kMostNativeFrames, room);
  Stacks stacks;
  for (size_t i = 0; i < found; ++i) stacks.ours.push_back(room.frames[i].address);
  for (int i = 1; i < count; ++i) stacks.theirs.push_back(reinterpret_cast<uintptr_t>(theirs[i]));
  return stacks;
}

// A callback of libc, an array of variable size, and a recursion: frames of several kinds.
UnwindRoom *g_room;
Stacks g_stacks;

int compare(const void *, const void *) {
  if (g_stacks.ours.empty()) g_stacks = both(*g_room);
  return 0;
}

__attribute__((noinline)) int deep(int depth, volatile char *room) {
  volatile char more[8 * static_cast<size_t>(depth) + 8];
  more[0] = room[0];
  if (depth > 0) return deep(depth - 1, more) + more[0];
  int numbers[4] = {3, 1, 2, 0};
  qsort(numbers, 4, sizeof numbers[0], compare);
  return numbers[0] + more[0];
}

void expect_same_frames() {
  const auto room = std::make_unique<UnwindRoom>();
  *room = {};
  g_room = room.get();
  for (int round = 0; round < 2; ++round) {  // the second one finds the rules that the first one has kept
    g_stacks = {};
    char none[1] = {0};
    deep(5, none);
    ASSERT_GT(g_stacks.theirs.size(), 8U);
    const size_t most = std::min(g_stacks.theirs.size(), kMostNativeFrames);
    // glibc's last frame may be the program's entry, behind which nothing is.
    ASSERT_GE(g_stacks.ours.size() + 1, most);
    for (size_t i = 0; i + 1 < most; ++i) EXPECT_EQ(g_stacks.ours[i], g_stacks.theirs[i]) << i;
  }
}

// Before the look-up for _dl_find_object, as with glibc before 2.35; the suite's cases run in this order.
TEST(Unwind, FindsTheFramesOfGlibcByTheListOfObjects) { expect_same_frames(); }

TEST(Unwind, FindsTheFramesOfGlibcByTheLinkersTable) {
  find_module_functions();
  expect_same_frames();
}

TEST(Unwind, BothWaysFindTheSameObject) {
  const auto address = reinterpret_cast<uintptr_t>(&getpid);
  const Module module = find_module(address);
  Dl_info info;
  ASSERT_TRUE(dladdr(reinterpret_cast<void *>(address), &info));
  EXPECT_EQ(module.base, reinterpret_cast<uintptr_t>(info.dli_fbase));
  EXPECT_STREQ(module.name, info.dli_fname);
}

TEST(Unwind, EndsWhereTheStackCannotBeRead) {
  const auto room = std::make_unique<UnwindRoom>();
  *room = {};
  char *pages = static_cast<char *>(mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  Registers here;
  TAILRACE_REGISTERS_HERE(here);
  here.sp = here.fp = reinterpret_cast<uintptr_t>(pages + 64);
  EXPECT_EQ(unwind(here, 0, getpid(), kMostNativeFrames, *room), 0U);
  here.pc = 16;
  EXPECT_EQ(unwind(here, 0, getpid(), kMostNativeFrames, *room), 0U);
  munmap(pages, 8192);
}

TEST(Unwind, AFramePointerThatLeadsAnywhereEndsIt) {
  const auto room = std::make_unique<UnwindRoom>();
  *room = {};
  std::vector<uintptr_t> stack(512);
  for (size_t i = 0; i < stack.size(); ++i) stack[i] = reinterpret_cast<uintptr_t>(&stack[(i * 7 + 1) % stack.size()]);
  const Registers here{16, reinterpret_cast<uintptr_t>(stack.data()), reinterpret_cast<uintptr_t>(&stack[8])};
  EXPECT_EQ(unwind(here, 0, getpid(), kMostNativeFrames, *room), 0U);
}

}  // namespace
}  // namespace tailrace
