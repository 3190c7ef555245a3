// See linker/modules.h.
#include "linker/modules.h"

#include <dlfcn.h>
#include <link.h>

#include "base/checked_memory.h"
#include "linker/real.h"

namespace tailrace {
namespace {

// struct dl_find_object of dlfcn.h, which older headers lack.
struct FoundObject {
  unsigned long long flags;
  void *map_start;
  void *map_end;
  struct link_map *link_map;
  void *eh_frame;
  unsigned long long reserved[7];
};
int (*g_find_object)(void *, FoundObject *);

struct Search {
  uintptr_t address;
  Module found;
};

int look_at(struct dl_phdr_info *info, size_t, void *data) {
  auto *search = static_cast<Search *>(data);
  Module module{0, info->dlpi_addr, 0, info->dlpi_name};
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) module.frame_header = begin;
    if (part.p_type != PT_LOAD) continue;
    if (!module.begin) module.begin = begin & ~uintptr_t{4095};
    holds = holds || (search->address >= begin && search->address - begin < part.p_memsz);
  }
  if (holds) search->found = module;
  return holds;
}

// The descriptor of an object's NT_GNU_BUILD_ID, its first 8 bytes.
bool read_build_id(const Module &module, int pid, unsigned char (&out)[8]) {
  ElfW(Ehdr) header;
  if (copy_memory(pid, module.begin, &header, sizeof header) != sizeof header) return false;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) return false;
  for (size_t i = 0; i < header.e_phnum && i < 64; ++i) {
    ElfW(Phdr) part;
    const uintptr_t at = module.begin + header.e_phoff + i * sizeof part;
    if (copy_memory(pid, at, &part, sizeof part) != sizeof part) return false;
    if (part.p_type != PT_NOTE) continue;
    for (uintptr_t note = 0; note + sizeof(ElfW(Nhdr)) < part.p_memsz;) {
      char head[sizeof(ElfW(Nhdr)) + 12];
      ElfW(Nhdr) sizes;
      if (copy_memory(pid, module.base + part.p_vaddr + note, head, sizeof head) != sizeof head) break;
      memcpy(&sizes, head, sizeof sizes);
      const bool is_id = sizes.n_type == NT_GNU_BUILD_ID && sizes.n_namesz == 4 && sizes.n_descsz >= sizeof out;
      if (is_id && memcmp(head + sizeof sizes, "GNU", 4) == 0) {
        memcpy(out, head + sizeof sizes + 4, sizeof out);
        return true;
      }
      note += sizeof sizes + ((sizes.n_namesz + 3U) & ~3U) + ((sizes.n_descsz + 3U) & ~3U);
    }
  }
  return false;
}

}  // namespace

void find_module_functions() {
  *reinterpret_cast<void **>(&g_find_object) = real_dlsym(RTLD_DEFAULT, "_dl_find_object");
  // The program's next dlerror() must not report it.
  if (!g_find_object) dlerror();
}

Module find_module(uintptr_t address) {
  if (g_find_object) {
    FoundObject found;
    if (g_find_object(reinterpret_cast<void *>(address), &found) != 0) return {};
    return {reinterpret_cast<uintptr_t>(found.map_start), found.link_map->l_addr,
            reinterpret_cast<uintptr_t>(found.eh_frame), found.link_map->l_name};
  }
  Search search{address, {}};
  dl_iterate_phdr(look_at, &search);
  return search.found;
}

void write_module_mark(Writer &out, const Module &module, const char *path, int pid) {
  unsigned char id[8];
  struct statx status;
  if (read_build_id(module, pid, id)) {
    for (unsigned char byte : id) out.hex(byte, 2);
  } else if (sys::statx(AT_FDCWD, path, 0, STATX_MTIME, &status) >= 0) {
    const int64_t ns = status.stx_mtime.tv_sec * 1'000'000'000LL + status.stx_mtime.tv_nsec;
    (out << 't').short_hex(static_cast<uint64_t>(ns));
  }
}

}  // namespace tailrace
