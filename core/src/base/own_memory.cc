// See base/own_memory.h.
#include "base/own_memory.h"

#include <sys/auxv.h>

#include "base/sys.h"

// Linux 4.17. Earlier kernels take the address for a hint.
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace tailrace::own_memory {

std::atomic<uintptr_t> g_low, g_high;

namespace {

// A piece begins at a granule's begin, and no other piece is in its last one. aarch64 has pages as large.
constexpr size_t kGranule = 64 * 1024, kUnit = 4096;
constexpr size_t kUnits = kGranule / kUnit;
constexpr size_t kGranules = 64 * 1024;  // 4 GiB: segments of 12,000 threads

// Of each granule how many units are mapped from its begin on, and whether forked children lack it. 0: free.
constexpr uint8_t kHidden = 0x80;
std::atomic<uint8_t> g_units[kGranules];
std::atomic<uint32_t> g_search;  // free granules are looked for from here on
std::atomic<uint32_t> g_top;     // none was taken from here on

// Pieces that lie elsewhere.
struct Stray {
  std::atomic<uintptr_t> begin;  // 0: none
  std::atomic<size_t> bytes;
  std::atomic<bool> is_hidden;
};
constexpr size_t kStrays = 256;
constexpr uintptr_t kTaken = 1;
Stray g_strays[kStrays];
std::atomic<uint32_t> g_stray_top;

struct Window {
  uintptr_t begin;
  size_t granules;
  uintptr_t end() const { return begin + granules * kGranule; }
  void *at(size_t granule) const { return reinterpret_cast<void *>(begin + granule * kGranule); }
};

// The size of the address space: a power of two, just below which the first stack ends, with the program's name at its
// end.
uintptr_t address_space() {
#if defined(__x86_64__)
  return uintptr_t{1} << 47;  // larger ones are given only to who asks
#else
  const uintptr_t name = getauxval(AT_EXECFN);
  return name ? uintptr_t{1} << (64 - __builtin_clzl(name)) : 0;
#endif
}

// Programs are aligned by up to 2 MiB, downwards. ThreadSanitizer's range around them is 1.3 GiB lower in the smallest
// address space, of 39 bits.
Window window() {
  static std::atomic<uintptr_t> begin, granules;
  if (!begin.load(std::memory_order_acquire)) {
    const uintptr_t space = address_space(), most = space >> 9;
    const size_t bytes = most < kGranules * kGranule ? most : kGranules * kGranule;
    constexpr uintptr_t kDistance = 16 << 20;
    const uintptr_t end = (space / 3 * 2 - kDistance) & ~(kGranule - 1);
    granules.store(space ? bytes / kGranule : 0, std::memory_order_relaxed);
    begin.store(space ? end - bytes : kTaken, std::memory_order_release);
  }
  return {begin.load(std::memory_order_relaxed), granules.load(std::memory_order_relaxed)};
}

template <class T>
void raise(std::atomic<T> &value, T to) {
  T now = value.load(std::memory_order_relaxed);
  while (now < to && !value.compare_exchange_weak(now, to, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void lower(std::atomic<uintptr_t> &value, uintptr_t to) {
  uintptr_t now = value.load(std::memory_order_relaxed);
  while ((now == 0 || now > to) && !value.compare_exchange_weak(now, to, std::memory_order_release)) {
  }
}

// Before a piece is there.
void widen_bounds(uintptr_t begin, uintptr_t end) {
  lower(g_low, begin);
  raise(g_high, end);
}

constexpr long kExists = -17;  // -EEXIST

constexpr size_t granules_of(size_t bytes) { return (bytes + kGranule - 1) / kGranule; }

uint8_t units_in(size_t bytes, size_t granule) {
  const size_t left = (bytes - granule * kGranule + kUnit - 1) / kUnit;
  return static_cast<uint8_t>(left < kUnits ? left : kUnits);
}

void set_free(size_t at, size_t count) {
  while (count--) g_units[at + count].store(0, std::memory_order_release);
}

// Marks the granules of a piece as taken. Returns how many were free: all, or those before one that was not.
size_t take(size_t at, size_t bytes) {
  const size_t count = granules_of(bytes);
  for (size_t i = 0; i < count; ++i) {
    uint8_t free = 0;
    if (g_units[at + i].compare_exchange_strong(free, units_in(bytes, i), std::memory_order_acq_rel)) continue;
    set_free(at, i);
    return i;
  }
  return count;
}

bool is_address(long result) { return result < -4095 || result > 0; }

long map_at(const void *at, size_t bytes, int flags, int fd) {
  return sys::call(SYS_mmap, sys::pointer(at), static_cast<long>(bytes), PROT_READ | PROT_WRITE, flags, fd, 0);
}

void unmap(uintptr_t begin, size_t bytes) { sys::call(SYS_munmap, static_cast<long>(begin), static_cast<long>(bytes)); }

// Null: the kernel has another mapping there (-EEXIST in `status`), or refuses.
void *map_in_window(void *wanted, size_t bytes, int flags, int fd, long &status) {
  status = map_at(wanted, bytes, flags | MAP_FIXED_NOREPLACE, fd);
  if (!is_address(status)) return nullptr;
  if (status == sys::pointer(wanted)) return wanted;
  unmap(static_cast<uintptr_t>(status), bytes);
  status = kExists;
  return nullptr;
}

// From granule `at` on. Where the kernel has something that is no piece, the search goes on behind it, in longer and
// longer steps.
void *place_from(size_t at, size_t bytes, int flags, int fd, long &status) {
  const Window w = window();
  const size_t count = granules_of(bytes);
  for (size_t step = 1; at + count <= w.granules;) {
    const size_t free = take(at, bytes);
    if (free < count) {
      at += free + 1;
      continue;
    }
    raise(g_top, static_cast<uint32_t>(at + count));
    widen_bounds(w.begin, w.begin + (at + count) * kGranule);
    void *placed = map_in_window(w.at(at), bytes, flags, fd, status);
    if (!placed) set_free(at, count);
    if (!placed && status != kExists) return nullptr;
    g_search.store(static_cast<uint32_t>(at + count), std::memory_order_relaxed);
    if (placed) return placed;
    at += step;
    step *= 2;
  }
  return nullptr;
}

void *place_in_window(size_t bytes, int flags, int fd) {
  long status = kExists;
  const size_t from = g_search.load(std::memory_order_relaxed);
  void *placed = place_from(from, bytes, flags, fd, status);
  return placed || !from || status != kExists ? placed : place_from(0, bytes, flags, fd, status);
}

Stray *take_stray() {
  for (size_t i = 0; i < kStrays; ++i) {
    uintptr_t free = 0;
    if (!g_strays[i].begin.compare_exchange_strong(free, kTaken, std::memory_order_acq_rel)) continue;
    raise(g_stray_top, static_cast<uint32_t>(i + 1));
    return &g_strays[i];
  }
  return nullptr;
}

void *place_anywhere(size_t bytes, int flags, int fd) {
  Stray *stray = take_stray();
  if (!stray) return nullptr;
  const long status = map_at(nullptr, bytes, flags, fd);
  if (!is_address(status)) {
    stray->begin.store(0, std::memory_order_release);
    return nullptr;
  }
  const auto begin = static_cast<uintptr_t>(status);
  widen_bounds(begin, begin + bytes);
  stray->bytes.store(bytes, std::memory_order_relaxed);
  stray->is_hidden.store(false, std::memory_order_relaxed);
  stray->begin.store(begin, std::memory_order_release);
  return reinterpret_cast<void *>(begin);
}

void *place(size_t bytes, int flags, int fd) {
  if (!bytes) return nullptr;
  void *placed = place_in_window(bytes, flags, fd);
  return placed ? placed : place_anywhere(bytes, flags, fd);
}

// Calls visit(stray, begin, end) for each.
template <class Visit>
void each_stray(Visit &&visit) {
  for (uint32_t i = 0, top = g_stray_top.load(std::memory_order_acquire); i < top; ++i) {
    const uintptr_t begin = g_strays[i].begin.load(std::memory_order_acquire);
    if (begin > kTaken) visit(g_strays[i], begin, begin + g_strays[i].bytes.load(std::memory_order_relaxed));
  }
}

bool is_in_window(const Window &w, uintptr_t address) { return address >= w.begin && address < w.end(); }

size_t granule_of(const Window &w, uintptr_t address) { return (address - w.begin) / kGranule; }

// The part of a granule that is mapped.
Range mapped_in(const Window &w, size_t granule) {
  const uintptr_t begin = w.begin + granule * kGranule;
  const size_t units = g_units[granule].load(std::memory_order_acquire) & ~kHidden;
  return {begin, begin + units * kUnit};
}

Range common(Range a, Range b) {
  const Range both{a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
  return both.begin < both.end ? both : Range{0, 0};
}

Range next_in_window(Range range) {
  const Window w = window();
  const uintptr_t top = w.begin + g_top.load(std::memory_order_acquire) * kGranule;
  const Range inside = common(range, {w.begin, top});
  if (inside.is_empty()) return inside;
  for (size_t i = granule_of(w, inside.begin); i <= granule_of(w, inside.end - 1); ++i) {
    Range found = common(inside, mapped_in(w, i));
    if (found.is_empty()) continue;
    // A piece's granules are one part.
    while (found.end < inside.end && found.end == w.begin + (i + 1) * kGranule) {
      const Range more = common(inside, mapped_in(w, ++i));
      if (more.is_empty() || more.begin != found.end) break;
      found.end = more.end;
    }
    return found;
  }
  return {0, 0};
}

}  // namespace

void *pages(size_t bytes) { return place(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1); }

void *file(int fd, size_t bytes) { return place(bytes, MAP_SHARED, fd); }

void release(void *at, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(at);
  const Window w = window();
  if (is_in_window(w, begin)) {
    const size_t first = granule_of(w, begin);
    if (!g_units[first].load(std::memory_order_acquire)) return;
    unmap(begin, bytes);
    set_free(first, granules_of(bytes));
    // Pieces stay close to each other, and take few tables of pages.
    if (first < g_search.load(std::memory_order_relaxed)) g_search.store(static_cast<uint32_t>(first));
    return;
  }
  each_stray([&](Stray &stray, uintptr_t its_begin, uintptr_t) {
    if (its_begin != begin) return;
    unmap(begin, bytes);
    stray.begin.store(0, std::memory_order_release);
  });
}

bool keep_from_children(void *at, size_t bytes) {
  if (sys::madvise(at, bytes, MADV_DONTFORK) < 0) return false;
  const auto begin = reinterpret_cast<uintptr_t>(at);
  const Window w = window();
  if (is_in_window(w, begin)) {
    // A granule of which children have a part stays.
    for (size_t i = granule_of(w, begin + kGranule - 1); i < granule_of(w, begin + bytes + kGranule - 1); ++i) {
      g_units[i].fetch_or(kHidden, std::memory_order_relaxed);
    }
    return true;
  }
  each_stray([&](Stray &stray, uintptr_t its_begin, uintptr_t) {
    if (its_begin == begin) stray.is_hidden.store(true, std::memory_order_relaxed);
  });
  return true;
}

void begin_child() {
  for (uint32_t i = 0, top = g_top.load(std::memory_order_acquire); i < top; ++i) {
    if (g_units[i].load(std::memory_order_relaxed) & kHidden) g_units[i].store(0, std::memory_order_relaxed);
  }
  g_search.store(0, std::memory_order_relaxed);
  each_stray([](Stray &stray, uintptr_t, uintptr_t) {
    if (stray.is_hidden.load(std::memory_order_relaxed)) stray.begin.store(0, std::memory_order_relaxed);
  });
}

Range next(Range range) {
  Range first = next_in_window(range);
  each_stray([&](Stray &, uintptr_t begin, uintptr_t end) {
    const Range found = common(range, {begin, end});
    if (!found.is_empty() && (first.is_empty() || found.begin < first.begin)) first = found;
  });
  return first;
}

void give_up(Range range) {
  const Window w = window();
  for (Range found = next(range); !found.is_empty(); found = next(range)) {
    if (is_in_window(w, found.begin)) {
      // Of a granule all goes: the table has no place for a rest.
      for (size_t i = granule_of(w, found.begin); i <= granule_of(w, found.end - 1); ++i) {
        const Range mapped = mapped_in(w, i);
        unmap(mapped.begin, mapped.end - mapped.begin);
        set_free(i, 1);
      }
    } else {
      each_stray([&](Stray &stray, uintptr_t begin, uintptr_t end) {
        if (found.begin < begin || found.begin >= end) return;
        unmap(begin, end - begin);
        stray.begin.store(0, std::memory_order_release);
      });
    }
  }
}

}  // namespace tailrace::own_memory
