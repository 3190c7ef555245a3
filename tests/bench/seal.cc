// What sealing costs: processor time and bytes for each event, of journals that killed processes left.
//
//   LD_PRELOAD=libtailrace.so TAILRACE_RUN=run TAILRACE_JOURNAL_DIR=journals ... a program that ends by SIGKILL
//   bench_seal [-n ROUNDS] NAME=JOURNAL[,JOURNAL...] ...
//
// All are sealed in turn in each round, from the copy in memory into a file in /dev/shm, so that their numbers are
// comparable on a noisy machine. Medians.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "format/seal.h"

using namespace tailrace;

namespace {

struct Journal {
  SegmentHeader *header;
  uint32_t used;
};

struct Workload {
  std::string name;
  std::vector<Journal> journals;
  std::vector<double> ns;
  double bytes = 0, events = 0;
};

uint64_t processor_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

Journal load(const std::string &path, const std::string &out) {
  int fd = open(path.c_str(), O_RDONLY);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) perror(path.c_str()), exit(1);
  const size_t bytes = segment_bytes(kSegmentSlots);
  void *map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pread(fd, map, bytes, 0) < static_cast<ssize_t>(kSegmentHeaderBytes)) perror(path.c_str()), exit(1);
  close(fd);
  auto *header = static_cast<SegmentHeader *>(map);
  if (header->magic != kJournalMagic || header->version != kJournalVersion) {
    fprintf(stderr, "%s: not a journal of this version\n", path.c_str());
    exit(1);
  }
  memcpy(header->trace_path, out.c_str(), out.size() + 1);
  header->path_bytes = static_cast<uint32_t>(out.size());
  uint32_t used = 0;
  for (uint32_t i = 0; i < header->slots; ++i) {
    uint32_t mark = header->slot(i)->mark.load();
    if (mark_kind(mark) && mark_epoch(mark) == static_cast<uint16_t>(header->epoch.load())) used = i + 1;
  }
  return {header, used};
}

}  // namespace

int main(int argc, char **argv) {
  int rounds = 50;
  const std::string out = "/dev/shm/tailrace-bench-seal." + std::to_string(getpid());
  std::vector<Workload> workloads;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "-n" && i + 1 < argc) {
      rounds = atoi(argv[++i]);
      continue;
    }
    const size_t equals = arg.find('=');
    if (equals == std::string::npos) return fprintf(stderr, "bench_seal [-n ROUNDS] NAME=JOURNAL[,JOURNAL] ...\n"), 1;
    Workload w;
    w.name = arg.substr(0, equals);
    for (size_t at = equals + 1; at < arg.size();) {
      const size_t end = std::min(arg.find(',', at), arg.size());
      w.journals.push_back(load(arg.substr(at, end - at), out));
      at = end + 1;
    }
    workloads.push_back(std::move(w));
  }
  SealScratch *scratch = make_seal_scratch();
  for (int round = 0; round < rounds; ++round) {
    for (Workload &w : workloads) {
      SealTotals totals;
      uint64_t spent = 0;
      for (const Journal &j : w.journals) {
        j.header->first_slot.store(0);
        ClockSample now{j.header->from_ticks + 1'000'000, j.header->from_ns + 1'000'000};
        const uint64_t before = processor_ns();
        if (seal_segment(*j.header, j.used, *scratch, now, &totals) < 0) return perror("seal"), 1;
        spent += processor_ns() - before;
        if (round + 1 < rounds) unlink(out.c_str());
      }
      w.events = static_cast<double>(totals.events);
      w.bytes = static_cast<double>(totals.file_bytes) / w.events;
      w.ns.push_back(static_cast<double>(spent) / w.events);
      if (getenv("KEEP") && round + 1 == rounds) rename(out.c_str(), (getenv("KEEP") + w.name).c_str());
    }
  }
  unlink(out.c_str());
  printf("%-12s %8s %10s %10s\n", "", "events", "ns/event", "B/event");
  for (Workload &w : workloads) {
    std::sort(w.ns.begin(), w.ns.end());
    printf("%-12s %8.0f %10.1f %10.2f\n", w.name.c_str(), w.events, w.ns[w.ns.size() / 2], w.bytes);
  }
  return 0;
}
