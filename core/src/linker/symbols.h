// Functions of a loaded object by their addresses, from the symbol table of its file: .symtab, which has static
// functions, too, else .dynsym. The dynamic linker's own look-up (dladdr) sees only what is exported.
//
//   open()  the file is the one that was loaded ─► its functions, by address, in memory of their own
//   find()  a name: read from the file again, if that is still the same one
//
// Invariants:
// - Nothing is mapped from the file: a program that cuts it would end by SIGBUS.
// - An object whose file is gone, another one, stripped or larger than kMostSymbols functions has no names, and no
// fault.
// - No malloc, no lock.
#pragma once

#include "linker/modules.h"

namespace tailrace {

constexpr size_t kMostSymbols = 1U << 22;  // of functions; 64 MiB
constexpr size_t kMostSymbolBytes = 2048;  // of a name

struct FunctionSymbol {
  uint64_t address;  // relative to the object
  uint32_t bytes;    // of code; 0: unknown
  uint32_t name;     // in the table of names
};

// Which file: another one has other numbers.
struct FileMark {
  uint64_t device, inode, bytes;
  int64_t changed_ns;
  bool operator==(const FileMark &o) const {
    return device == o.device && inode == o.inode && bytes == o.bytes && changed_ns == o.changed_ns;
  }
};

class ObjectSymbols {
 public:
  // `path`: of its file, kept by the caller. How many bytes were read is added to `bytes_read`.
  void open(const Module &module, const char *path, int pid, int64_t &bytes_read);
  void close();
  // The function that begins at the address, or has it inside: null without one. Its name goes into `room`, empty where
  // it can't be read.
  const FunctionSymbol *find(uintptr_t address, char (&room)[kMostSymbolBytes], string_view &name,
                             int64_t &bytes_read) const;

  uintptr_t begin() const { return begin_; }
  uintptr_t base() const { return base_; }
  const char *path() const { return path_; }
  // Whether this object is what is mapped there now, from the file of that path.
  bool is_loaded(const Module &module, string_view path) const;

 private:
  uintptr_t begin_ = 0, base_ = 0;
  const char *path_ = nullptr;
  FileMark file_ = {};
  uint64_t names_at_ = 0, names_bytes_ = 0;
  FunctionSymbol *symbols_ = nullptr;
  size_t count_ = 0;
};

}  // namespace tailrace
