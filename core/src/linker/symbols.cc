// See linker/symbols.h.
#include "linker/symbols.h"

#include <elf.h>
#include <link.h>

#include <algorithm>

#include "base/checked_memory.h"
#include "base/own_memory.h"

namespace tailrace {
namespace {

constexpr size_t kPageBytes = 4096, kBufferBytes = 64 * 1024, kMostSections = 1024, kMostCompared = 1 << 20;

// False where it is no file.
bool mark_of(int fd, const char *path, FileMark &out) {
  struct statx s;
  const int flags = fd < 0 ? 0 : AT_EMPTY_PATH;
  if (sys::statx(fd < 0 ? AT_FDCWD : fd, path, flags, STATX_BASIC_STATS, &s) < 0 || !S_ISREG(s.stx_mode)) return false;
  out = {static_cast<uint64_t>(s.stx_dev_major) << 32 | s.stx_dev_minor, s.stx_ino, s.stx_size,
         s.stx_mtime.tv_sec * 1'000'000'000LL + s.stx_mtime.tv_nsec};
  return true;
}

// A file for the time of a scope.
class OpenedFile {
 public:
  OpenedFile(const char *path, int64_t &bytes_read) : fd_(sys::open(path, O_RDONLY)), bytes_read_(bytes_read) {}
  ~OpenedFile() {
    if (fd_ >= 0) sys::close(fd_);
  }
  OpenedFile(const OpenedFile &) = delete;
  OpenedFile &operator=(const OpenedFile &) = delete;

  // How many bytes, fewer at the end.
  size_t read(uint64_t at, void *to, size_t bytes) const {
    size_t done = 0;
    while (done < bytes) {
      const long n = sys::pread(fd_, static_cast<char *>(to) + done, bytes - done, static_cast<int64_t>(at + done));
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    bytes_read_ += static_cast<int64_t>(done);
    return done;
  }
  bool mark(FileMark &out) const { return fd_ >= 0 && mark_of(fd_, "", out); }

 private:
  int fd_;
  int64_t &bytes_read_;
};

// Memory for the time of a scope.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes), memory_(own_memory::pages(bytes)) {}
  ~Pages() {
    if (memory_) own_memory::release(memory_, bytes_);
  }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  template <class T>
  T *as() const {
    return static_cast<T *>(memory_);
  }

 private:
  size_t bytes_;
  void *memory_;
};

// The bytes at a place of the file are those in memory.
bool is_same_part(const OpenedFile &file, uint64_t at, uintptr_t address, uint64_t bytes, int pid) {
  char ours[1024], theirs[sizeof ours];
  for (uint64_t done = 0; done < bytes; done += sizeof ours) {
    const size_t n = std::min<uint64_t>(sizeof ours, bytes - done);
    if (file.read(at + done, theirs, n) != n) return false;
    if (copy_memory(pid, address + done, ours, n) != static_cast<long>(n) || memcmp(ours, theirs, n) != 0) return false;
  }
  return true;
}

// The file is the one that was mapped: the first page, with headers and perhaps a build ID, and the begin of its code.
bool is_file_of(const Module &module, const OpenedFile &file, int pid) {
  ElfW(Ehdr) header;
  ElfW(Phdr) parts[64];
  if (file.read(0, &header, sizeof header) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof parts[0] || !header.e_phnum)
    return false;
  const size_t bytes = std::min<size_t>(header.e_phnum, 64) * sizeof parts[0];
  if (file.read(header.e_phoff, parts, bytes) != bytes) return false;
  if (!is_same_part(file, 0, module.begin, std::min<uint64_t>(kPageBytes, parts[0].p_filesz), pid)) return false;
  for (size_t i = 0; i < bytes / sizeof parts[0]; ++i) {
    const ElfW(Phdr) &part = parts[i];
    if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
    const uint64_t most = std::min<uint64_t>(part.p_filesz, kMostCompared);
    if (!is_same_part(file, part.p_offset, module.base + part.p_vaddr, most, pid)) return false;
  }
  return true;
}

struct Table {
  uint64_t at, bytes, names_at, names_bytes;
};

bool find_table(const OpenedFile &file, char *buffer, Table &table) {
  ElfW(Ehdr) header;
  if (file.read(0, &header, sizeof header) != sizeof header) return false;
  const size_t count = header.e_shnum;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 || !count ||
      count > kMostSections || header.e_shentsize != sizeof(ElfW(Shdr)))
    return false;
  auto *sections = reinterpret_cast<ElfW(Shdr) *>(buffer);
  if (file.read(header.e_shoff, sections, count * sizeof *sections) != count * sizeof *sections) return false;
  const ElfW(Shdr) *chosen = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const bool is_better = sections[i].sh_type == SHT_SYMTAB || (sections[i].sh_type == SHT_DYNSYM && !chosen);
    if (is_better && sections[i].sh_link < count && sections[i].sh_entsize == sizeof(ElfW(Sym))) chosen = sections + i;
  }
  if (!chosen) return false;
  const ElfW(Shdr) &names = sections[chosen->sh_link];
  table = {chosen->sh_offset, chosen->sh_size, names.sh_offset, names.sh_size};
  return true;
}
static_assert(kMostSections * sizeof(ElfW(Shdr)) <= kBufferBytes);

// Calls visit(symbol) for the functions in the table; false where it ends early.
template <class Visit>
bool each_function(const OpenedFile &file, const Table &table, char *buffer, Visit visit) {
  constexpr size_t kAtOnce = kBufferBytes / sizeof(ElfW(Sym)) * sizeof(ElfW(Sym));
  for (uint64_t at = 0; at < table.bytes;) {
    const size_t bytes = std::min<uint64_t>(kAtOnce, table.bytes - at);
    if (file.read(table.at + at, buffer, bytes) != bytes) return false;
    for (size_t i = 0; i + sizeof(ElfW(Sym)) <= bytes; i += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      memcpy(&symbol, buffer + i, sizeof symbol);
      const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
      if (is_function && symbol.st_shndx != SHN_UNDEF && symbol.st_value) visit(symbol);
    }
    at += bytes;
  }
  return true;
}

}  // namespace

void ObjectSymbols::open(const Module &module, const char *path, int pid, int64_t &bytes_read) {
  begin_ = module.begin;
  base_ = module.base;
  path_ = path;
  const OpenedFile file(path, bytes_read);
  Table table;
  const Pages buffer(kBufferBytes);
  if (!buffer.as<char>() || !file.mark(file_) || !is_file_of(module, file, pid) ||
      !find_table(file, buffer.as<char>(), table))
    return;
  size_t count = 0;
  if (!each_function(file, table, buffer.as<char>(), [&](const ElfW(Sym) &) { ++count; })) return;
  if (!count || count > kMostSymbols) return;
  auto *symbols = static_cast<FunctionSymbol *>(own_memory::pages(count * sizeof(FunctionSymbol)));
  if (!symbols) return;
  size_t filled = 0;
  each_function(file, table, buffer.as<char>(), [&](const ElfW(Sym) & symbol) {
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(symbol.st_size, UINT32_MAX));
    if (filled < count) symbols[filled++] = {symbol.st_value, bytes, symbol.st_name};
  });
  std::sort(symbols, symbols + filled, [](const FunctionSymbol &a, const FunctionSymbol &b) {
    return a.address != b.address ? a.address < b.address : a.name < b.name;
  });
  symbols_ = symbols;
  count_ = filled;
  names_at_ = table.names_at;
  names_bytes_ = table.names_bytes;
}

void ObjectSymbols::close() {
  if (symbols_) own_memory::release(symbols_, count_ * sizeof *symbols_);
  *this = ObjectSymbols();
}

const FunctionSymbol *ObjectSymbols::find(uintptr_t address, char (&room)[kMostSymbolBytes], string_view &name,
                                          int64_t &bytes_read) const {
  name = {};
  const uint64_t at = address - base_;
  const FunctionSymbol *first = symbols_;
  const FunctionSymbol *next =
      std::upper_bound(first, first + count_, at, [](uint64_t a, const FunctionSymbol &s) { return a < s.address; });
  if (next == first) return nullptr;
  const FunctionSymbol *found = next - 1;
  if (found->address != at && at - found->address >= found->bytes) return nullptr;
  while (found > first && found[-1].address == found->address) --found;  // of several names always the same one
  if (found->name >= names_bytes_) return found;
  const OpenedFile file(path_, bytes_read);
  FileMark mark;
  if (!file.mark(mark) || !(mark == file_)) return found;
  const size_t bytes =
      file.read(names_at_ + found->name, room, std::min<uint64_t>(sizeof room, names_bytes_ - found->name));
  const size_t length = strnlen(room, bytes);
  if (length < bytes) name = {room, length};
  return found;
}

bool ObjectSymbols::is_loaded(const Module &module, string_view path) const {
  FileMark mark;
  if (module.begin != begin_ || module.base != base_ || path != path_) return false;
  // A file that was removed since can't have been loaded again.
  return !mark_of(-1, path_, mark) || mark == file_;
}

}  // namespace tailrace
