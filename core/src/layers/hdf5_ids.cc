// See layers/hdf5_ids.h.
#include "layers/hdf5_ids.h"

#include <atomic>

#include "base/own_memory.h"
#include "format/functions.h"
#include "session/session.h"

namespace tailrace {
namespace {

constexpr uint32_t kNameless = 1 << 16;
constexpr uint32_t kUnlinked = 256;
constexpr uint32_t kMaxProbes = 32;
constexpr uint64_t kFree = 0, kRemoved = 1;

struct Unlinked {
  std::atomic<uint64_t> key;
  std::atomic<int64_t> bytes;
  std::atomic<uint32_t> writes;
};

std::atomic<std::atomic<uint64_t> *> g_nameless;  // allocated for the first nameless id
Unlinked g_unlinked[kUnlinked];

uint64_t place_of(uint64_t key) { return key * 0x9E3779B97F4A7C15ULL >> 40; }

std::atomic<uint64_t> *find_nameless(uint64_t key) {
  std::atomic<uint64_t> *ids = is_recording() ? g_nameless.load(std::memory_order_acquire) : nullptr;
  for (uint32_t i = 0; ids && i < kMaxProbes; ++i) {
    std::atomic<uint64_t> &place = ids[(place_of(key) + i) % kNameless];
    uint64_t there = place.load(std::memory_order_relaxed);
    if (there == key) return &place;
    if (there == kFree) return nullptr;
  }
  return nullptr;
}

std::atomic<uint64_t> *nameless_ids() {
  std::atomic<uint64_t> *ids = g_nameless.load(std::memory_order_acquire);
  if (ids) return ids;
  constexpr size_t kBytes = kNameless * sizeof(uint64_t);
  auto *pages = static_cast<std::atomic<uint64_t> *>(own_memory::pages(kBytes));
  if (!pages || g_nameless.compare_exchange_strong(ids, pages)) return pages;
  own_memory::release(pages, kBytes);
  return ids;
}

Unlinked *find_unlinked(uint64_t key) {
  for (uint32_t i = 0; i < kMaxProbes; ++i) {
    Unlinked &row = g_unlinked[(place_of(key) + i) % kUnlinked];
    uint64_t there = row.key.load(std::memory_order_acquire);
    if (there == key) return &row;
    if (there == kFree) return nullptr;
  }
  return nullptr;
}

}  // namespace

bool is_nameless(uint64_t key) { return find_nameless(key) != nullptr; }

void add_nameless(uint64_t key) {
  std::atomic<uint64_t> *ids = nameless_ids();
  if (!ids || find_nameless(key)) return;
  for (uint32_t i = 0; i < kMaxProbes; ++i) {
    std::atomic<uint64_t> &place = ids[(place_of(key) + i) % kNameless];
    uint64_t there = place.load(std::memory_order_relaxed);
    if (there <= kRemoved && place.compare_exchange_strong(there, key, std::memory_order_relaxed)) return;
  }
  ids[place_of(key) % kNameless].store(key, std::memory_order_relaxed);
}

void remove_nameless(uint64_t key) {
  if (std::atomic<uint64_t> *place = find_nameless(key)) place->store(kRemoved, std::memory_order_relaxed);
}

void add_unlinked(uint64_t key) {
  Unlinked *row = find_unlinked(key);
  for (uint32_t i = 0; !row && i < kMaxProbes; ++i) {
    Unlinked &place = g_unlinked[(place_of(key) + i) % kUnlinked];
    uint64_t there = place.key.load(std::memory_order_relaxed);
    if (there <= kRemoved && place.key.compare_exchange_strong(there, key)) row = &place;
  }
  if (!row) row = &g_unlinked[place_of(key) % kUnlinked];
  row->bytes.store(0, std::memory_order_relaxed);
  row->writes.store(0, std::memory_order_relaxed);
  row->key.store(key, std::memory_order_release);
}

void note_written(uint64_t key, int64_t bytes) {
  Unlinked *row = is_nameless(key) ? find_unlinked(key) : nullptr;
  if (!row) return;
  row->writes.fetch_add(1, std::memory_order_relaxed);
  if (bytes != kUnknownBytes) row->bytes.fetch_add(bytes, std::memory_order_relaxed);
}

bool take_unlinked(uint64_t key, int64_t &bytes) {
  Unlinked *row = find_unlinked(key);
  if (!row) return false;
  bytes = row->bytes.load(std::memory_order_relaxed);
  bool written = row->writes.load(std::memory_order_relaxed) > 0;
  row->key.store(kRemoved, std::memory_order_relaxed);
  return written;
}

}  // namespace tailrace
