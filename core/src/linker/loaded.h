// A loaded object (program or library) as its own tables describe it: what it exports, what it imports, and where the
// addresses of its imports stand (System V ABI, "Dynamic Linking"; the GNU hash section is binutils').
//
// Invariants: nothing here allocates, locks or calls the dynamic linker, so it may run in dl_iterate_phdr's callback,
// where objects can't go away, and inside the program's allocator.
#pragma once

#include <link.h>

#include "base/text.h"

namespace tailrace {

// One import: the entry (of the GOT or in data) that holds the symbol's address.
struct Import {
  const char *symbol;
  uint32_t index;  // in the object's symbol table
  uintptr_t *entry;
  bool may_be_lazy;  // bound at its first call; until then the entry points into the object itself
};

// strcmp without libc's: a sanitizer replaces that, and looks functions up before its own is ready.
inline bool is_same_name(const char *a, const char *b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

// What an object exports.
class Exports {
 public:
  // kResolver: a function that returns the function's address (STT_GNU_IFUNC). kOther: a symbol that is no function.
  enum class Found { kNone, kFunction, kResolver, kOther };

  // False where it has no tables.
  bool read(uintptr_t base, const ElfW(Dyn) * dynamic);
  // The address of the function or its resolver, in its default version.
  Found find(const char *symbol, uintptr_t &address) const;
  // Calls a resolver as the dynamic linker does. Its object must be relocated.
  static uintptr_t resolve(uintptr_t resolver);
  // Null where it has none.
  const char *soname() const { return soname_ && strings_ ? strings_ + soname_ : nullptr; }

 private:
  friend class LoadedObject;
  template <class Address>
  const Address *at(uintptr_t address) const {
    // The dynamic linker makes the addresses of the dynamic section absolute, where it may write there.
    return reinterpret_cast<const Address *>(address < base_ ? base_ + address : address);
  }

  bool is_default(uint32_t index, const char *symbol) const;
  Found take(uint32_t index, uintptr_t &address) const;
  Found find_by_gnu_hash(const char *symbol, uintptr_t &address) const;
  Found find_by_old_hash(const char *symbol, uintptr_t &address) const;

  uintptr_t base_ = 0;
  const ElfW(Sym) *symbols_ = nullptr;
  const char *strings_ = nullptr;
  const uint32_t *hash_ = nullptr;      // DT_GNU_HASH
  const uint32_t *old_hash_ = nullptr;  // DT_HASH
  const uint16_t *versions_ = nullptr;
  size_t soname_ = 0;
};

class LoadedObject {
 public:
  // False where it has no tables.
  bool read(const dl_phdr_info &info);

  // The address of the function that the object exports by that name; 0 for none, and where a resolver chooses it.
  uintptr_t find_export(const char *symbol) const {
    uintptr_t address = 0;
    return exports_.find(symbol, address) == Exports::Found::kFunction ? address : 0;
  }
  bool holds(uintptr_t address) const { return address >= begin_ && address < end_; }
  uintptr_t begin() const { return begin_; }
  uintptr_t end() const { return end_; }
  string_view soname() const { return exports_.soname() ? string_view(exports_.soname()) : string_view(); }

  // Whether any undefined symbol's name has the prefix; true where only a scan of all imports could say.
  bool imports_prefix(string_view prefix) const;
  // Calls visit(import) for each entry of an import.
  template <class Visit>
  void each_import(Visit visit) const {
    walk(jump_relocations_, jump_bytes_, true, visit);
    walk(relocations_, relocation_bytes_, false, visit);
  }
  // The library that the symbol is required from, by its version; empty where it has none.
  string_view required_of(uint32_t symbol_index) const;
  template <class Visit>
  void each_needed(Visit visit) const {
    for (const ElfW(Dyn) *d = dynamic_; d->d_tag != DT_NULL; ++d) {
      if (d->d_tag == DT_NEEDED && visit(string_view(exports_.strings_ + d->d_un.d_val))) return;
    }
  }

  // Writes `value` into the entry of an import, which may be in memory that is read-only since relocation.
  static bool replace(uintptr_t *entry, uintptr_t value);

 private:
  template <class Visit>
  void walk(const ElfW(Rela) * rows, size_t bytes, bool jumps, Visit visit) const {
    for (size_t i = 0; i < bytes / sizeof *rows; ++i) {
      const auto index = static_cast<uint32_t>(ELF64_R_SYM(rows[i].r_info));
      if (!index || !is_address(ELF64_R_TYPE(rows[i].r_info)) || rows[i].r_addend) continue;
      auto *entry = reinterpret_cast<uintptr_t *>(exports_.base_ + rows[i].r_offset);
      visit(Import{exports_.strings_ + exports_.symbols_[index].st_name, index, entry, jumps});
    }
  }
  static bool is_address(uint64_t type);

  Exports exports_;
  uintptr_t begin_ = 0, end_ = 0;
  const ElfW(Dyn) *dynamic_ = nullptr;
  const ElfW(Verneed) *required_ = nullptr;
  const ElfW(Rela) *jump_relocations_ = nullptr, *relocations_ = nullptr;
  size_t jump_bytes_ = 0, relocation_bytes_ = 0;
};

}  // namespace tailrace
