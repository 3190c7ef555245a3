// See linker/loaded.h.
#include "linker/loaded.h"

#include <linux/futex.h>
#include <sys/auxv.h>
#if defined(__aarch64__)
#include <sys/ifunc.h>
#endif

#include "base/sys.h"

namespace tailrace {

// In DT_VERSYM: not the version that a lookup without one finds.
static constexpr uint16_t kHiddenVersion = 0x8000;

bool LoadedObject::is_address(uint64_t type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
#else
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
#endif
}

bool Exports::read(uintptr_t base, const ElfW(Dyn) * dynamic) {
  *this = Exports();
  base_ = base;
  for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_SYMTAB: symbols_ = at<ElfW(Sym)>(d->d_un.d_ptr); break;
      case DT_STRTAB: strings_ = at<char>(d->d_un.d_ptr); break;
      case DT_GNU_HASH: hash_ = at<uint32_t>(d->d_un.d_ptr); break;
      case DT_HASH: old_hash_ = at<uint32_t>(d->d_un.d_ptr); break;
      case DT_VERSYM: versions_ = at<uint16_t>(d->d_un.d_ptr); break;
      case DT_SONAME: soname_ = d->d_un.d_val; break;
      default: break;
    }
  }
  return symbols_ && strings_;
}

bool LoadedObject::read(const dl_phdr_info &info) {
  *this = LoadedObject();
  begin_ = UINTPTR_MAX;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr) &part = info.dlpi_phdr[i];
    uintptr_t from = info.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_DYNAMIC) dynamic_ = reinterpret_cast<const ElfW(Dyn) *>(from);
    if (part.p_type != PT_LOAD) continue;
    if (from < begin_) begin_ = from;
    if (from + part.p_memsz > end_) end_ = from + part.p_memsz;
  }
  if (!dynamic_ || !exports_.read(info.dlpi_addr, dynamic_)) return false;
  bool jumps_have_addends = true;
  for (const ElfW(Dyn) *d = dynamic_; d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_VERNEED: required_ = exports_.at<ElfW(Verneed)>(d->d_un.d_ptr); break;
      case DT_JMPREL: jump_relocations_ = exports_.at<ElfW(Rela)>(d->d_un.d_ptr); break;
      case DT_PLTRELSZ: jump_bytes_ = d->d_un.d_val; break;
      case DT_PLTREL: jumps_have_addends = d->d_un.d_val == DT_RELA; break;
      case DT_RELA: relocations_ = exports_.at<ElfW(Rela)>(d->d_un.d_ptr); break;
      case DT_RELASZ: relocation_bytes_ = d->d_un.d_val; break;
      default: break;
    }
  }
  if (!jumps_have_addends || !jump_relocations_) jump_bytes_ = 0;
  if (!relocations_) relocation_bytes_ = 0;
  return true;
}

bool Exports::is_default(uint32_t index, const char *symbol) const {
  const ElfW(Sym) &s = symbols_[index];
  bool is_hidden = versions_ && versions_[index] & kHiddenVersion;
  return s.st_shndx != SHN_UNDEF && !is_hidden && is_same_name(strings_ + s.st_name, symbol);
}

Exports::Found Exports::take(uint32_t index, uintptr_t &address) const {
  const ElfW(Sym) &s = symbols_[index];
  const auto type = ELF64_ST_TYPE(s.st_info);
  bool is_function = type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC;
  if (!is_function || s.st_shndx == SHN_ABS) return Found::kOther;
  address = base_ + s.st_value;
  return type == STT_GNU_IFUNC ? Found::kResolver : Found::kFunction;
}

Exports::Found Exports::find_by_gnu_hash(const char *symbol, uintptr_t &address) const {
  uint32_t h = 5381;
  for (const char *c = symbol; *c; ++c) h = h * 33 + static_cast<unsigned char>(*c);
  const uint32_t buckets = hash_[0], first = hash_[1], words = hash_[2], shift = hash_[3];
  auto *bloom = reinterpret_cast<const ElfW(Addr) *>(hash_ + 4);
  auto *bucket = reinterpret_cast<const uint32_t *>(bloom + words);
  if (!buckets || !words) return Found::kNone;
  constexpr uint32_t kBits = 8 * sizeof(ElfW(Addr));
  ElfW(Addr) seen = bloom[h / kBits % words];
  if (!(seen >> (h % kBits) & seen >> ((h >> shift) % kBits) & 1)) return Found::kNone;
  uint32_t i = bucket[h % buckets];
  if (i < first) return Found::kNone;
  const uint32_t *chain = bucket + buckets;
  for (;; ++i) {
    uint32_t other = chain[i - first];
    if ((other | 1) == (h | 1) && is_default(i, symbol)) return take(i, address);
    if (other & 1) return Found::kNone;
  }
}

Exports::Found Exports::find_by_old_hash(const char *symbol, uintptr_t &address) const {
  uint32_t h = 0;
  for (const char *c = symbol; *c; ++c) {
    h = (h << 4) + static_cast<unsigned char>(*c);
    h = (h ^ (h >> 24 & 0xF0)) & 0xFFFFFFF;
  }
  const uint32_t buckets = old_hash_[0];
  const uint32_t *bucket = old_hash_ + 2, *chain = bucket + buckets;
  if (!buckets) return Found::kNone;
  for (uint32_t i = bucket[h % buckets]; i; i = chain[i]) {
    if (is_default(i, symbol)) return take(i, address);
  }
  return Found::kNone;
}

Exports::Found Exports::find(const char *symbol, uintptr_t &address) const {
  if (hash_) return find_by_gnu_hash(symbol, address);
  if (old_hash_) return find_by_old_hash(symbol, address);
  return Found::kNone;
}

uintptr_t Exports::resolve(uintptr_t resolver) {
#if defined(__aarch64__)
  // "Calling an IFUNC resolver", SYSVABI64 of Arm; glibc's sysdeps/aarch64/dl-irel.h.
  __ifunc_arg_t features{};
  features._size = sizeof features;
  features._hwcap = getauxval(AT_HWCAP);
  features._hwcap2 = getauxval(AT_HWCAP2);
  auto *choose = reinterpret_cast<uintptr_t (*)(uint64_t, const __ifunc_arg_t *)>(resolver);
  return choose(features._hwcap | _IFUNC_ARG_HWCAP, &features);
#else
  return reinterpret_cast<uintptr_t (*)()>(resolver)();
#endif
}

// Undefined symbols come before hashed ones. Where none is hashed binutils writes 1, whatever the table holds.
bool LoadedObject::imports_prefix(string_view prefix) const {
  const uint32_t *hash = exports_.hash_;
  if (!hash || hash[1] <= 1) return true;
  for (uint32_t i = 1; i < hash[1]; ++i) {
    if (strncmp(exports_.strings_ + exports_.symbols_[i].st_name, prefix.data(), prefix.size()) == 0) return true;
  }
  return false;
}

string_view LoadedObject::required_of(uint32_t symbol_index) const {
  uint16_t version = exports_.versions_ ? exports_.versions_[symbol_index] & ~kHiddenVersion : 0;
  if (version <= VER_NDX_GLOBAL || !required_) return {};
  auto after = [](const auto *row, size_t bytes) {
    return reinterpret_cast<decltype(row)>(reinterpret_cast<const char *>(row) + bytes);
  };
  for (const ElfW(Verneed) *file = required_;; file = after(file, file->vn_next)) {
    auto *row = reinterpret_cast<const ElfW(Vernaux) *>(reinterpret_cast<const char *>(file) + file->vn_aux);
    for (unsigned i = 0; i < file->vn_cnt; ++i, row = after(row, row->vna_next)) {
      if (row->vna_other == version) return exports_.strings_ + file->vn_file;
    }
    if (!file->vn_next) return {};
  }
}

// Whether the entry is writable: the kernel adds 0 to it. /proc/self/maps would be a file, and another thread may
// protect the page in between.
static bool is_writable(uintptr_t *entry) {
  static uint32_t unused;
  constexpr long kAddNothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  long ret = sys::call(SYS_futex, sys::pointer(&unused), FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, sys::pointer(entry),
                       kAddNothing);
  return ret >= 0;
}

bool LoadedObject::replace(uintptr_t *entry, uintptr_t value) {
  if (reinterpret_cast<uintptr_t>(entry) % sizeof *entry) return false;
  const auto bytes = static_cast<long>(getauxval(AT_PAGESZ));
  const auto page = static_cast<long>(reinterpret_cast<uintptr_t>(entry) & -static_cast<uintptr_t>(bytes));
  bool protect = !is_writable(entry);
  // It is protected only when relocation is complete.
  if (protect && sys::call(SYS_mprotect, page, bytes, PROT_READ | PROT_WRITE) < 0) return false;
  __atomic_store_n(entry, value, __ATOMIC_RELEASE);
  if (protect) sys::call(SYS_mprotect, page, bytes, PROT_READ);
  return true;
}

}  // namespace tailrace
