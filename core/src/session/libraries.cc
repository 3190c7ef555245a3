// See session/libraries.h.
#include "session/libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

// glibc 2.32 and later: false once the process, or the one that it was forked from, has had a second thread.
extern "C" char __libc_single_threaded __attribute__((weak));

namespace tailrace {

std::atomic<bool> g_handle_wanted;

namespace {

// The file offset of an object's program headers; far behind its beginning when no mapped segment contains them.
uint64_t offset_of_headers(const dl_phdr_info &info) {
  uint64_t at = reinterpret_cast<uintptr_t>(info.dlpi_phdr) - info.dlpi_addr;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const auto &part = info.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && at >= part.p_vaddr && at - part.p_vaddr < part.p_filesz) {
      return part.p_offset + (at - part.p_vaddr);
    }
  }
  return UINT32_MAX;
}

// What the dynamic linker read of an object in addition to its beginning: glibc reads program headers that extend
// beyond that twice (patchelf moves them to the end of a library).
int64_t headers_read(const dl_phdr_info &info) {
  uint64_t bytes = info.dlpi_phnum * sizeof *info.dlpi_phdr;
  return offset_of_headers(info) + bytes > kReadPerLibrary ? static_cast<int64_t>(2 * bytes) : 0;
}

// The number of objects scanned so far, the low bits of the number unloaded by then, and the sum of headers_read(). One
// word, since threads may scan at once. The linker appends new objects to its list.
struct Scanned {
  uint64_t objects : 20, unloaded : 12, headers : 32;
};
std::atomic<uint64_t> g_scanned;

struct LoadedWalk {
  Scanned before, now;
  uint64_t adds = 0, index = 0;
};

std::atomic<int64_t> g_bytes;  // as of the last scan
std::atomic<int64_t> g_rejected_bytes;
std::atomic<bool> g_answers{true};

// The objects that a forked child inherited; written once, before it has another thread.
constexpr size_t kMaxInherited = 1024;
struct {
  const void *objects[kMaxInherited];
  size_t count;
} g_inherited;

Scanned scanned() {
  Scanned at;
  uint64_t word = g_scanned.load(std::memory_order_relaxed);
  memcpy(&at, &word, sizeof word);
  return at;
}

}  // namespace

bool linker_answers() { return g_answers.load(std::memory_order_relaxed); }

void count_rejected(int64_t bytes) { g_rejected_bytes.fetch_add(bytes, std::memory_order_relaxed); }

int64_t library_bytes() {
  int64_t rejected = g_rejected_bytes.load(std::memory_order_relaxed);
  if (!linker_answers()) return g_bytes.load(std::memory_order_relaxed) + rejected;
  LoadedWalk walk;
  walk.before = scanned();
  walk.now = {};
  auto visit = [](dl_phdr_info *info, size_t, void *out) {
    auto &w = *static_cast<LoadedWalk *>(out);
    if (w.index == 0) {
      w.adds = info->dlpi_adds;
      w.now.unloaded = info->dlpi_subs & 0xFFF;
      bool known = w.now.unloaded == w.before.unloaded && w.before.objects > 0;
      if (known) w.now = w.before;
    }
    if (w.index++ >= w.now.objects) {
      w.now.headers = w.now.headers + static_cast<uint32_t>(headers_read(*info));
      w.now.objects = w.index;
    }
    return 0;
  };
  dl_iterate_phdr(visit, &walk);
  // Unloaded objects had been read too.
  if (walk.now.headers < walk.before.headers) walk.now.headers = walk.before.headers;
  uint64_t word;
  memcpy(&word, &walk.now, sizeof word);
  g_scanned.store(word, std::memory_order_relaxed);
  int64_t bytes = static_cast<int64_t>(walk.adds) * kReadPerLibrary + walk.now.headers;
  g_bytes.store(bytes, std::memory_order_relaxed);
  return bytes + rejected;
}

void inherit_libraries(bool by_libc) {
  if (&__libc_single_threaded && __libc_single_threaded) return;
  // What the parent loaded since its last scan can't be told from what the child loads; and where the parent may not
  // call dl_iterate_phdr either, the lock was perhaps never free.
  bool known = by_libc && linker_answers();
  g_answers.store(false, std::memory_order_relaxed);
  g_inherited.count = 0;
  if (!known) return g_handle_wanted.store(false, std::memory_order_relaxed);
  size_t count = 0;
  for (const link_map *m = _r_debug.r_map; m; m = m->l_next) {
    if (count < kMaxInherited) g_inherited.objects[count] = m;
    ++count;
  }
  g_inherited.count = count;
  g_handle_wanted.store(count <= kMaxInherited && count == scanned().objects, std::memory_order_relaxed);
}

bool take_handle(void *handle) {
  // The list has no objects of other namespaces.
  Lmid_t space;
  if (dlinfo(handle, RTLD_DI_LMID, &space) != 0 || space != LM_ID_BASE) return false;
  for (size_t i = 0; i < g_inherited.count; ++i) {
    if (g_inherited.objects[i] == handle) return false;
  }
  g_answers.store(true, std::memory_order_relaxed);
  g_handle_wanted.store(false, std::memory_order_relaxed);
  return true;
}

}  // namespace tailrace
