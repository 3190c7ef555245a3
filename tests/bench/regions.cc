// What a region costs: regions BURSTS EACH. Bursts are as long as a segment holds, with pauses in which the sealer works, so
// that what is measured is the record and not the sealer. Prints the ns of a region, of an empty loop and of a clock
// reading, the median of the bursts each.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tailrace/region.hpp"

static double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

__attribute__((noinline)) static void region() {
  TAILRACE_REGION("region", "");
  __asm__ volatile("");
}

__attribute__((noinline)) static void nothing() { __asm__ volatile(""); }

template <class Function>
static double each_ns(Function function, int times) {
  const double begin = now_ns();
  for (int i = 0; i < times; ++i) function();
  return (now_ns() - begin) / times;
}

int main(int, char **argv) {
  const int bursts = atoi(argv[1]), each = atoi(argv[2]);
  std::vector<double> found[3];
  for (int i = 0; i < bursts; ++i) {
    found[0].push_back(each_ns(region, each));
    found[1].push_back(each_ns(nothing, each));
    found[2].push_back(each_ns(now_ns, each));
    usleep(20000);
  }
  for (auto &times : found) {
    std::sort(times.begin(), times.end());
    printf("%.2f ", times[times.size() / 2]);
  }
  printf("\n");
}
