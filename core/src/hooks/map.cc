// Hooks: mappings of files. Loads and stores through memory are no calls; a mapping tells which bytes of the file they
// can have been. Mappings without a file belong to allocators and are no access to data. hooks/unrecorded_maps.cc has
// the other calls on memory.
#include <stdarg.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "hooks/hook_records.h"
#include "hooks/programs_memory.h"
#include "linker/real.h"

using namespace tailrace;

namespace {

// The mappings of files, for munmap and msync to name their files. They are few, so a scan is enough; a mapping for
// which the table has no room has no further events. Changed under the table lock.
struct Mapping {
  std::atomic<uintptr_t> begin{0};
  uintptr_t end = 0;
  uint64_t hash = 0;
  int64_t offset = 0;
  uint64_t access = 0;  // protection | flags << 32
  int pid = 0;          // of the process that made it: forked children inherit it
  FileIdentity identity;
  char *path = nullptr;
  uint32_t path_bytes = 0;
};
constexpr uint32_t kMaxMappings = 1024;
Mapping g_mappings[kMaxMappings];
std::atomic<uint32_t> g_mapping_count;  // none is in use from here on

uint64_t access_of(int protection, int flags) {
  return static_cast<uint32_t>(protection) | static_cast<uint64_t>(static_cast<uint32_t>(flags)) << 32;
}

// Call with the table lock held, here and below.
void release(Mapping &m) {
  m.begin.store(0, std::memory_order_relaxed);
  if (m.path) pool_give(m.path, m.path_bytes);
  m.path = nullptr;
  uint32_t n = g_mapping_count.load(std::memory_order_relaxed);
  while (n && !g_mappings[n - 1].begin.load(std::memory_order_relaxed)) --n;
  g_mapping_count.store(n, std::memory_order_relaxed);
}

void keep(uintptr_t begin, uintptr_t end, int64_t offset, uint64_t access, const NamedFile &file,
          int pid = g_session.pid) {
  uint32_t i = 0, n = g_mapping_count.load(std::memory_order_relaxed);
  while (i < n && g_mappings[i].begin.load(std::memory_order_relaxed)) ++i;
  if (i == kMaxMappings) return;
  Mapping &m = g_mappings[i];
  m.path = static_cast<char *>(pool_take(file.path_bytes ? file.path_bytes : 1));
  if (!m.path) return;
  memcpy(m.path, file.path, file.path_bytes);
  m.path_bytes = file.path_bytes;
  m.identity = file.identity;
  m.hash = file.hash;
  m.end = end;
  m.offset = offset;
  m.access = access;
  m.pid = pid;
  m.begin.store(begin, std::memory_order_release);
  if (i == n) g_mapping_count.store(n + 1, std::memory_order_release);
}

void copy_to(const Mapping &m, NamedFile &file) {
  file.hash = m.hash;
  file.identity = m.identity;
  file.path_bytes = m.path_bytes;
  memcpy(file.path, m.path, m.path_bytes);
}

struct Part {
  bool found = false;
  uintptr_t begin = 0;
  uint64_t bytes = 0;
  int64_t offset = 0;
  uint64_t access = 0;
  int pid = 0;
};

// The part of [begin, end) in the first mapping from index `i` on; `i` is advanced past it.
Part next_part(uint32_t &i, uintptr_t begin, uintptr_t end, NamedFile &file) {
  Part part;
  Locked lock(g_wiped.table);
  for (; i < g_mapping_count.load(std::memory_order_relaxed); ++i) {
    const Mapping &m = g_mappings[i];
    uintptr_t from = m.begin.load(std::memory_order_relaxed);
    if (!from || from >= end || m.end <= begin) continue;
    uintptr_t first = from > begin ? from : begin, last = m.end < end ? m.end : end;
    copy_to(m, file);
    ++i;
    return {true, first, last - first, m.offset + static_cast<int64_t>(first - from), m.access, m.pid};
  }
  return part;
}

// To be called when the range is unmapped or mapped anew.
void forget(uintptr_t begin, uintptr_t end) {
  Locked lock(g_wiped.table);
  for (uint32_t i = 0; i < g_mapping_count.load(std::memory_order_relaxed); ++i) {
    Mapping &m = g_mappings[i];
    uintptr_t from = m.begin.load(std::memory_order_relaxed), to = m.end;
    if (!from || from >= end || to <= begin) continue;
    NamedFile rest;
    copy_to(m, rest);
    int64_t offset = m.offset;
    uint64_t access = m.access;
    int pid = m.pid;
    release(m);
    if (from < begin) keep(from, begin, offset, access, rest, pid);
    if (end < to) keep(end, to, offset + static_cast<int64_t>(end - from), access, rest, pid);
  }
}

// Whether stores reach the file.
bool is_shared(uint64_t access) {
  uint64_t type = access >> 32 & MAP_TYPE;
  return type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
}

bool any_mapping() { return g_mapping_count.load(std::memory_order_relaxed) != 0; }

// A failed call is recorded with its file, too.
void record_parts(const Call &call, Fn fn, uintptr_t begin, size_t n, int64_t ret) {
  if (!enter()) return;
  int64_t result = result_of(ret);
  int saved = errno;
  NamedFile file;
  uint32_t i = 0;
  for (Part part = next_part(i, begin, begin + n, file); part.found; part = next_part(i, begin, begin + n, file)) {
    Event e{fn, 0, part.access, part.offset, part.bytes, result};
    record_path(call, e, &file);
  }
  errno = saved;
}

void record_map(const Call &call, Fn fn, int fd, void *map, size_t n, int64_t at, uint64_t access) {
  bool failed = map == MAP_FAILED;
  record_fd(call, fn, fd, failed ? -1 : 1, n, at, access);
  if (failed || !call || !enter()) return;
  int saved = errno;
  auto begin = reinterpret_cast<uintptr_t>(map);
  if (any_mapping()) forget(begin, begin + n);
  NamedFile file;
  if (name_open_file(fd, file)) {
    Locked lock(g_wiped.table);
    keep(begin, begin + n, at, access, file);
  }
  errno = saved;
}

int unmap(void *address, size_t n) {
  return for_programs_memory(address, n, Unmapped::kPassed,
                             [](void *begin, size_t bytes) { return REAL(munmap)(begin, bytes); });
}

}  // namespace

#define MMAP_HOOK(symbol, offset_type)                                                                              \
  TAILRACE_HOOK void *symbol(void *address, size_t n, int protection, int flags, int fd, offset_type at) noexcept { \
    auto real = [&] { return REAL(symbol)(address, n, protection, flags, fd, at); };                                \
    if (fd < 0 || (flags & MAP_ANONYMOUS)) {                                                                        \
      void *map = map_for_program(address, n, flags, real);                                                         \
      if ((flags & MAP_FIXED) && any_mapping() && map != MAP_FAILED && enter())                                     \
        forget(reinterpret_cast<uintptr_t>(map), reinterpret_cast<uintptr_t>(map) + n);                             \
      return map;                                                                                                   \
    }                                                                                                               \
    Call call;                                                                                                      \
    void *map = map_for_program(address, n, flags, real);                                                           \
    record_map(call, Fn::f_##symbol, fd, map, n, at, access_of(protection, flags));                                 \
    return map;                                                                                                     \
  }
MMAP_HOOK(mmap, off_t)
MMAP_HOOK(mmap64, off64_t)

// Recorded before the call: another thread may get the addresses as soon as they are free.
TAILRACE_HOOK int munmap(void *address, size_t n) noexcept {
  auto begin = reinterpret_cast<uintptr_t>(address);
  if (__builtin_expect(!any_mapping(), 1)) return unmap(address, n);
  Call call;
  if (!call) return unmap(address, n);
  NamedFile file;
  uint32_t i = 0;
  Part part = next_part(i, begin, begin + n, file);
  if (!part.found) return unmap(address, n);
  record_parts(call, Fn::f_munmap, begin, n, 0);
  forget(begin, begin + n);
  return unmap(address, n);
}

// A new protection is an access only if it makes a shared mapping writable.
TAILRACE_HOOK int mprotect(void *address, size_t n, int protection) noexcept {
  auto begin = reinterpret_cast<uintptr_t>(address);
  auto real = [&](void *at, size_t bytes) { return REAL(mprotect)(at, bytes, protection); };
  if (__builtin_expect(!any_mapping(), 1)) return for_programs_memory(address, n, Unmapped::kEnds, real);
  Call call;
  int ret = for_programs_memory(address, n, Unmapped::kEnds, real);
  if (ret < 0 || !call) return ret;
  int saved = errno;
  NamedFile file;
  uint32_t i = 0;
  for (Part part = next_part(i, begin, begin + n, file); part.found; part = next_part(i, begin, begin + n, file)) {
    uint64_t access = access_of(protection, static_cast<int>(part.access >> 32));
    if (static_cast<uint32_t>(part.access) == static_cast<uint32_t>(protection)) continue;
    if ((protection & PROT_WRITE) && !(part.access & PROT_WRITE) && is_shared(access)) {
      Event e{Fn::f_mprotect, 0, access, part.offset, part.bytes, 1};
      record_path(call, e, &file);
    }
    // The part becomes a mapping of its own at any place in the table, so the scan starts again.
    forget(part.begin, part.begin + part.bytes);
    Locked lock(g_wiped.table);
    keep(part.begin, part.begin + part.bytes, part.offset, access, file);
    i = 0;
  }
  errno = saved;
  return ret;
}

void tailrace::record_remaining_maps() {
  if (!any_mapping()) return;
  Call call;
  NamedFile file;
  uint32_t i = 0;
  for (Part part = next_part(i, 0, UINTPTR_MAX, file); part.found; part = next_part(i, 0, UINTPTR_MAX, file)) {
    if (part.pid != g_session.pid || !is_shared(part.access) || !(part.access & PROT_WRITE)) continue;
    Event e{Fn::f_munmap, 0, part.access, part.offset, part.bytes, 0};
    record_path(call, e, &file);
  }
  Locked lock(g_wiped.table);
  for (Mapping &m : g_mappings) {
    if (m.begin.load(std::memory_order_relaxed)) release(m);
  }
}

TAILRACE_HOOK int msync(void *address, size_t n, int flags) {
  Call call;
  int ret = for_programs_memory(address, n, Unmapped::kFails,
                                [&](void *at, size_t bytes) { return REAL(msync)(at, bytes, flags); });
  if (call && any_mapping()) record_parts(call, Fn::f_msync, reinterpret_cast<uintptr_t>(address), n, ret);
  return ret;
}

TAILRACE_HOOK void *mremap(void *address, size_t n, size_t wanted, int flags, ...) noexcept {
  va_list args;
  va_start(args, flags);
  void *target = va_arg(args, void *);
  va_end(args);
  auto begin = reinterpret_cast<uintptr_t>(address);
  NamedFile file;
  uint32_t i = 0;
  Call call;
  Part part;
  if (call && any_mapping()) part = next_part(i, begin, begin + (n ? n : 1), file);
  auto real = [&] { return REAL(mremap)(address, n, wanted, flags, target); };
  void *map = remap_for_program({address, n, wanted, flags, target}, real);
  if (!part.found || part.begin != begin) return map;
  bool failed = map == MAP_FAILED;
  Event e{Fn::f_mremap, 0, part.access, part.offset, wanted, result_of(failed ? -1 : 1)};
  record_path(call, e, &file);
  if (failed || !call) return map;
  auto moved = reinterpret_cast<uintptr_t>(map);
  // With an old size of 0 the old mapping stays (mremap(2)).
  if (n) forget(begin, begin + n);
  forget(moved, moved + wanted);
  Locked lock(g_wiped.table);
  keep(moved, moved + wanted, part.offset, part.access, file);
  return map;
}
