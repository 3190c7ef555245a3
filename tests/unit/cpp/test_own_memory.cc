#include "base/own_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

namespace own = tailrace::own_memory;

namespace {

constexpr size_t kPage = 64 * 1024;  // of any machine

uintptr_t number(const void *p) { return reinterpret_cast<uintptr_t>(p); }

own::Range range_of(const void *p, size_t bytes) { return {number(p), number(p) + bytes}; }

bool is_mapped(const void *p) { return msync(reinterpret_cast<void *>(number(p) & ~(kPage - 1)), 1, MS_ASYNC) == 0; }

void *map_at(const void *at, size_t bytes, int protection = PROT_READ | PROT_WRITE) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
  void *p = mmap(const_cast<void *>(at), bytes, protection, kFlags, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// The status of a child that runs check().
template <class Check>
int in_child(Check check) {
  const pid_t pid = fork();
  if (pid == 0) _exit(check());
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

TEST(OwnMemory, PagesAreZeroAndFound) {
  auto *p = static_cast<char *>(own::pages(3 * kPage + 5));
  ASSERT_NE(p, nullptr);
  for (size_t i = 0; i < 3 * kPage + 5; ++i) ASSERT_EQ(p[i], 0);
  memset(p, 1, 3 * kPage + 5);
  EXPECT_TRUE(own::may_be_in(number(p), 1));
  EXPECT_TRUE(own::may_be_in(number(p) - kPage, 2 * kPage));
  const own::Range found = own::next(range_of(p, 8 * kPage));
  EXPECT_EQ(found.begin, number(p));
  EXPECT_GE(found.end, number(p) + 3 * kPage + 5);
  own::release(p, 3 * kPage + 5);
  EXPECT_FALSE(is_mapped(p));
  EXPECT_TRUE(own::next(range_of(p, 3 * kPage)).is_empty());
}

TEST(OwnMemory, APartOfARangeIsFoundAlone) {
  auto *p = static_cast<char *>(own::pages(2 * kPage));
  const own::Range found = own::next({number(p) + kPage, number(p) + kPage + 4096});
  EXPECT_EQ(found.begin, number(p) + kPage);
  EXPECT_EQ(found.end, number(p) + kPage + 4096);
  own::release(p, 2 * kPage);
}

TEST(OwnMemory, NothingLiesWhereTheProgramsOwnIs) {
  void *theirs = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_TRUE(own::next(range_of(theirs, kPage)).is_empty());
  EXPECT_FALSE(own::may_be_in(4096, 0));
  munmap(theirs, kPage);
}

TEST(OwnMemory, WhatIsFreedIsTakenAgain) {
  void *first = own::pages(kPage);
  own::release(first, kPage);
  void *second = own::pages(kPage);
  EXPECT_EQ(second, first);
  own::release(second, kPage);
}

TEST(OwnMemory, APlaceThatIsTakenByAnotherIsPassedOver) {
  void *p = own::pages(kPage);
  own::release(p, kPage);
  void *theirs = map_at(p, 300 * kPage);
  ASSERT_NE(theirs, nullptr);
  auto *other = static_cast<char *>(own::pages(2 * kPage));
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(number(other) + 2 * kPage <= number(p) || number(other) >= number(p) + 300 * kPage);
  other[kPage] = 1;
  own::release(other, 2 * kPage);
  munmap(theirs, 300 * kPage);
}

TEST(OwnMemory, WithoutRoomInTheWindowItLiesElsewhereAndIsFound) {
  void *first = own::pages(kPage);
  own::release(first, kPage);
  // All that can be had from there on.
  std::vector<std::pair<void *, size_t>> taken;
  for (uintptr_t at = number(first) & ~((uintptr_t{1} << 32) - 1), n = 0; n < 3; ++n, at += uintptr_t{1} << 32) {
    for (size_t size = uintptr_t{1} << 32, step = at; size >= kPage;) {
      void *p = map_at(reinterpret_cast<void *>(step), size, PROT_NONE);
      if (p) taken.emplace_back(p, size);
      step += size;
      if (step >= at + (uintptr_t{1} << 32)) step = at, size /= 16;
    }
  }
  auto *stray = static_cast<char *>(own::pages(5 * kPage));
  ASSERT_NE(stray, nullptr);
  stray[4 * kPage] = 1;
  for (const auto &[p, size] : taken) {
    EXPECT_TRUE(number(stray) + 5 * kPage <= number(p) || number(stray) >= number(p) + size);
  }
  EXPECT_TRUE(own::may_be_in(number(stray), 1));
  EXPECT_EQ(own::next(range_of(stray, 5 * kPage)).begin, number(stray));
  own::release(stray, 5 * kPage);
  EXPECT_TRUE(own::next(range_of(stray, 5 * kPage)).is_empty());
  for (const auto &[p, size] : taken) munmap(p, size);
}

TEST(OwnMemory, AFileIsSharedAndItsMappingFound) {
  const int fd = memfd_create("file", 0);
  ASSERT_EQ(ftruncate(fd, 2 * kPage), 0);
  auto *p = static_cast<char *>(own::file(fd, 2 * kPage));
  ASSERT_NE(p, nullptr);
  p[kPage] = 7;
  char c = 0;
  EXPECT_EQ(pread(fd, &c, 1, kPage), 1);
  EXPECT_EQ(c, 7);
  EXPECT_EQ(own::next(range_of(p, 2 * kPage)).end, number(p) + 2 * kPage);
  own::release(p, 2 * kPage);
  close(fd);
  EXPECT_EQ(own::file(-1, kPage), nullptr);
}

TEST(OwnMemory, AChildForgetsWhatItDoesNotHave) {
  auto *kept = static_cast<char *>(own::pages(2 * kPage)), *hidden = static_cast<char *>(own::pages(2 * kPage)),
       *in_part = static_cast<char *>(own::pages(3 * kPage));
  kept[0] = hidden[0] = in_part[0] = 1;
  ASSERT_TRUE(own::keep_from_children(hidden, 2 * kPage));
  ASSERT_TRUE(own::keep_from_children(in_part + kPage, 2 * kPage));
  EXPECT_EQ(in_child([&] {
              own::begin_child();
              if (own::next(range_of(kept, 2 * kPage)).is_empty() || !is_mapped(kept)) return 1;
              if (!own::next(range_of(hidden, 2 * kPage)).is_empty() || is_mapped(hidden)) return 2;
              if (own::next(range_of(in_part, 3 * kPage)).end != number(in_part) + kPage) return 3;
              void *taken[64];
              for (void *&p : taken) p = own::pages(kPage);
              for (void *p : taken) {
                if (!p || p == kept || p == kept + kPage || p == in_part) return 4;
              }
              return 0;
            }),
            0);
  EXPECT_FALSE(own::next(range_of(hidden, 2 * kPage)).is_empty());
  own::release(kept, 2 * kPage);
  own::release(hidden, 2 * kPage);
  own::release(in_part, 3 * kPage);
}

TEST(OwnMemory, WhatWasGivenUpIsNeitherFoundNorReleased) {
  auto *p = static_cast<char *>(own::pages(3 * kPage));
  own::give_up({number(p) + kPage, number(p) + 2 * kPage});
  EXPECT_FALSE(is_mapped(p + kPage));
  EXPECT_TRUE(own::next({number(p) + kPage, number(p) + 2 * kPage}).is_empty());
  EXPECT_EQ(own::next(range_of(p, 3 * kPage)).end, number(p) + kPage);
  own::give_up(range_of(p, 3 * kPage));
  void *theirs = map_at(p, 3 * kPage);
  ASSERT_EQ(theirs, p);
  own::release(p, 3 * kPage);
  EXPECT_TRUE(is_mapped(p) && is_mapped(p + 2 * kPage));
  munmap(theirs, 3 * kPage);
}

TEST(OwnMemory, ThreadsNeverGetTheSame) {
  std::vector<std::thread> threads;
  std::atomic<int> faults{0};
  for (int n = 1; n <= 8; ++n) {
    threads.emplace_back([&faults, n] {
      for (int i = 0; i < 300; ++i) {
        const size_t bytes = kPage * static_cast<size_t>(1 + (n + i) % 5);
        auto *p = static_cast<char *>(own::pages(bytes));
        if (!p || p[0] || p[bytes - 1]) ++faults;
        if (!p) continue;
        memset(p, n, bytes);
        if (own::next(range_of(p, bytes)).begin != number(p)) ++faults;
        for (size_t at = 0; at < bytes; at += 512) faults += p[at] != n;
        own::release(p, bytes);
      }
    });
  }
  for (auto &thread : threads) thread.join();
  EXPECT_EQ(faults, 0);
}

}  // namespace
