// See session/birth_times.h.
#include "session/birth_times.h"

#include "base/sys.h"

namespace tailrace {
namespace {

constexpr size_t kRows = 512, kPlaces = 4;  // 32 KiB
constexpr int64_t kOldEnough_s = 3;

struct Entry {
  std::atomic<uint64_t> value;
  std::atomic<uint64_t> mixed;
};
Entry g_rows[kRows][kPlaces];

// Not 0, which empty entries have.
uint64_t key_of(const struct stat &file) {
  FileIdentity unborn;
  unborn.dev = file.st_dev;
  unborn.ino = file.st_ino;
  unborn.btime_ns = file.st_ctim.tv_sec * 1'000'000'000LL + file.st_ctim.tv_nsec;
  return file_hash({}, unborn);
}

}  // namespace

bool find_birth_time(const struct stat &file, int64_t &btime_ns) {
  uint64_t key = key_of(file);
  for (const Entry &entry : g_rows[key % kRows]) {
    uint64_t value = entry.value.load(std::memory_order_relaxed);
    if ((entry.mixed.load(std::memory_order_relaxed) ^ value) != key) continue;
    btime_ns = static_cast<int64_t>(value);
    return true;
  }
  return false;
}

void keep_birth_time(const struct stat &file, int64_t btime_ns) {
  timespec now;
  if (sys::call(SYS_clock_gettime, CLOCK_REALTIME, sys::pointer(&now)) < 0) return;
  if (now.tv_sec - file.st_ctim.tv_sec <= kOldEnough_s) return;
  uint64_t key = key_of(file), value = static_cast<uint64_t>(btime_ns);
  Entry *row = g_rows[key % kRows];
  for (size_t i = kPlaces - 1; i > 0; --i) {
    row[i].value.store(row[i - 1].value.load(std::memory_order_relaxed), std::memory_order_relaxed);
    row[i].mixed.store(row[i - 1].mixed.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  row[0].value.store(value, std::memory_order_relaxed);
  row[0].mixed.store(key ^ value, std::memory_order_relaxed);
}

}  // namespace tailrace
