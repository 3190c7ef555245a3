// See format/program.h.
#include "format/program.h"

#include <elf.h>
#include <sys/auxv.h>

#include "base/sys.h"
#include "format/path_patterns.h"

namespace tailrace {

constexpr string_view kObstacleNames[static_cast<int>(Obstacle::kCount)] = {
    "",         "static",      "musl",     "machine",  "setuid",      "go",         "left_out",     "dropped",
    "too_long", "small_stack", "confined", "no_place", "unreachable", "unreadable", "no_descriptor"};

// The kernel sets AT_SECURE when the file gives the user further privileges.
bool gives_privileges(const char *path) {
  struct statx s;
  if (sys::statx(AT_FDCWD, path, 0, STATX_MODE | STATX_UID | STATX_GID, &s) < 0) return false;
  if ((s.stx_mode & S_ISUID) && s.stx_uid != sys::getuid()) return true;
  if ((s.stx_mode & S_ISGID) && (s.stx_mode & S_IXGRP) && s.stx_gid != static_cast<unsigned>(sys::call(SYS_getgid))) {
    return true;
  }
  return sys::getuid() != 0 &&
         sys::call(SYS_getxattr, sys::pointer(path), sys::pointer("security.capability"), 0, 0) > 0;
}

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
#endif

constexpr size_t kMostRows = 64, kRowsAtOnce = 8;  // of a file's tables
constexpr size_t kTextBytes = 512, kHeadBytes = 256, kCodeBytes = 4096;
constexpr size_t kAlign = 4;
constexpr uint64_t kMostCode = uint64_t{1} << 28;  // a sparse file's headers may name any size

// A note by the name of its owner, which is at most a few characters.
bool has_note(const char *notes, size_t n, uint32_t type, string_view owner) {
  while (n >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    memcpy(&note, notes, sizeof note);
    size_t name = (static_cast<size_t>(note.n_namesz) + kAlign - 1) / kAlign * kAlign;
    size_t size = sizeof note + name + (static_cast<size_t>(note.n_descsz) + kAlign - 1) / kAlign * kAlign;
    if (size > n) return false;
    string_view found(notes + sizeof note, note.n_namesz);  // with zeros at its end: Go's has two
    if (note.n_type == type && starts_with(found, owner) && found.size() > owner.size() && !found[owner.size()])
      return true;
    notes += size, n -= size;
  }
  return false;
}

// .note.go.buildid.
bool has_go_note(const char *notes, size_t n) { return has_note(notes, n, 4, "Go"); }

// .note.tailrace: linked with libtailrace.a (core/static/note.s), so it records by itself.
bool has_own_note(const char *notes, size_t n) { return has_note(notes, n, 1, "tailrace"); }

// Instructions that are a system call, by which a program moves a file's data itself (Zig's and Rust's libraries do):
// the number is loaded right before. Elsewhere in the code the same bytes are as good as impossible; programs that
// call libc have none (python, perl, node, git), though all have the two bytes of `syscall` somewhere.
#if defined(__x86_64__)
constexpr size_t kCallBytes = 7;  // mov $number, %eax (5 bytes); syscall
bool is_data_call(const char *call) {
  if (memcmp(call + 5, "\x0f\x05", 2) != 0) return false;
  if (memcmp(call + 3, "\x31\xc0", 2) == 0) return true;  // xor %eax, %eax: read
  uint32_t number;
  memcpy(&number, call + 1, sizeof number);
  constexpr uint32_t kNumbers[] = {SYS_read,  SYS_write,  SYS_pread64, SYS_pwrite64,
                                   SYS_readv, SYS_writev, SYS_open,    SYS_openat};
  for (uint32_t of_data : kNumbers) {
    if (call[0] == '\xb8' && number == of_data) return true;
  }
  return false;
}
constexpr char kCallEnd = '\x05';  // the last byte of each
#else
constexpr size_t kCallBytes = 8;  // mov w8 or x8, #number; svc #0
bool is_data_call(const char *call) {
  uint32_t move, trap;
  memcpy(&move, call, sizeof move);
  memcpy(&trap, call + 4, sizeof trap);
  constexpr uint32_t kSvc = 0xd4000001, kMove = 0x52800008, kWide = 0x80000000, kShift = 5;
  constexpr uint32_t kNumbers[] = {SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_openat};
  for (uint32_t of_data : kNumbers) {
    if (trap == kSvc && (move & ~kWide) == (kMove | of_data << kShift)) return true;
  }
  return false;
}
constexpr char kCallEnd = '\xd4';
#endif

// An open program file, read with pread.
class ProgramFile {
 public:
  ProgramFile(int fd, int64_t &read_bytes) : fd_(fd), read_bytes_(read_bytes) {}

  long read(void *to, size_t n, uint64_t at) {
    long got = sys::pread(fd_, to, n, static_cast<int64_t>(at));
    if (got > 0) read_bytes_ += got;
    return got;
  }

  ProgramLook look(const Elf64_Ehdr &elf, LookAt part) {
    if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != kMachine) return {Obstacle::kMachine};
    if (elf.e_phentsize != sizeof(Elf64_Phdr)) return {};
    bool go = false, ours = false, is_musl = false, has_interpreter = false;
    Elf64_Phdr dynamic{};
    const bool is_whole = each<Elf64_Phdr>(elf.e_phoff, elf.e_phnum, [&](const Elf64_Phdr &s) {
      if (s.p_type == PT_DYNAMIC) dynamic = s;
      if (s.p_type != PT_INTERP && s.p_type != PT_NOTE) return true;
      char text[kTextBytes];
      long n = read(text, s.p_filesz < sizeof text ? s.p_filesz : sizeof text, s.p_offset);
      string_view named(text, n > 0 ? static_cast<size_t>(n) : 0);
      if (s.p_type == PT_INTERP) has_interpreter = true, is_musl = named.find("/ld-musl-") != string_view::npos;
      if (s.p_type == PT_NOTE) {
        go = go || has_go_note(named.data(), named.size());
        ours = ours || has_own_note(named.data(), named.size());
      }
      return true;
    });
    if (is_musl) return {Obstacle::kMusl};
    if (has_interpreter) return {Obstacle::kNone, go || (part == LookAt::kCode && calls_kernel(elf))};
    // A shared object without an interpreter is the dynamic linker, with a program as its argument.
    if (!is_whole || (elf.e_type == ET_DYN && !is_static_pie(dynamic))) return {};
    if (ours) return {};
    return {go ? Obstacle::kGo : Obstacle::kStatic};
  }

 private:
  // Calls visit(row) for each row of a table until it returns false. False: the file ends before. The thread may have a
  // small stack.
  template <class Row, class Visit>
  bool each(uint64_t at, size_t count, Visit visit) {
    Row rows[kRowsAtOnce];
    count = count < kMostRows ? count : kMostRows;
    for (size_t i = 0; i < count; i += kRowsAtOnce) {
      const size_t n = count - i < kRowsAtOnce ? count - i : kRowsAtOnce, bytes = n * sizeof(Row);
      if (read(rows, bytes, at + i * sizeof(Row)) != static_cast<long>(bytes)) return false;
      for (size_t k = 0; k < n; ++k) {
        if (!visit(rows[k])) return true;
      }
    }
    return true;
  }

  bool calls_kernel(const Elf64_Ehdr &elf) {
    bool found = false;
    each<Elf64_Phdr>(elf.e_phoff, elf.e_phnum, [&](const Elf64_Phdr &s) {
      found = s.p_type == PT_LOAD && (s.p_flags & PF_X) && has_data_call(s.p_offset, s.p_filesz);
      return !found;
    });
    return found;
  }

  bool has_data_call(uint64_t at, uint64_t bytes) {
    char code[kCodeBytes];
    size_t kept = 0;  // of the piece before
    bytes = bytes < kMostCode ? bytes : kMostCode;
    while (bytes > 0) {
      const size_t most = sizeof code - kept;
      const long n = read(code + kept, bytes < most ? bytes : most, at);
      if (n <= 0) return false;
      at += static_cast<size_t>(n), bytes -= static_cast<size_t>(n);
      const char *const end = code + kept + n;
      for (const char *last = code + kCallBytes - 1; last < end; ++last) {
        last = static_cast<const char *>(memchr(last, kCallEnd, static_cast<size_t>(end - last)));
        if (!last) break;
        if (is_data_call(last + 1 - kCallBytes)) return true;
      }
      kept = kept + static_cast<size_t>(n) < kCallBytes ? kept + static_cast<size_t>(n) : kCallBytes - 1;
      memmove(code, end - kept, kept);
    }
    return false;
  }

  bool is_static_pie(const Elf64_Phdr &dynamic) {
    bool is = false;
    each<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz / sizeof(Elf64_Dyn), [&](const Elf64_Dyn &entry) {
      if (entry.d_tag == DT_FLAGS_1) is = (entry.d_un.d_val & DF_1_PIE) != 0;
      return entry.d_tag != DT_FLAGS_1;
    });
    return is;
  }

  int fd_;
  int64_t &read_bytes_;
};

// Cuts "#!interpreter argument" down to the interpreter.
bool interpreter_of(char *head, size_t n) {
  if (n < 4 || head[0] != '#' || head[1] != '!') return false;
  size_t from = 2, to;
  while (from < n && (head[from] == ' ' || head[from] == '\t')) ++from;
  for (to = from; to < n && head[to] != ' ' && head[to] != '\t' && head[to] != '\n' && head[to]; ++to) {
  }
  if (to == from || to == n) return false;
  memmove(head, head + from, to - from);
  head[to - from] = 0;
  return true;
}

// What keeps the library out of the program, or kNone; in `head`, where it is a script, the name of its interpreter.
ProgramLook look_at(const char *path, LookAt part, char (&head)[kHeadBytes], bool &is_script, int64_t &read_bytes) {
  int fd = sys::open(path, O_RDONLY | O_NONBLOCK);
  is_script = false;
  // A program that gives privileges may be executable and not readable.
  if (fd < 0) return {gives_privileges(path) ? Obstacle::kSetuid : Obstacle::kNone};
  ProgramFile file(fd, read_bytes);
  long n = file.read(head, sizeof head, 0);
  ProgramLook found;
  if (n >= static_cast<long>(sizeof(Elf64_Ehdr)) && memcmp(head, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr elf;
    memcpy(&elf, head, sizeof elf);
    found = file.look(elf, part);
    // Of the others the library must stay out of the environment.
    if (!breaks(found.obstacle) && gives_privileges(path)) found = {Obstacle::kSetuid};
  } else {
    is_script = n > 0 && interpreter_of(head, static_cast<size_t>(n));
  }
  sys::close(fd);
  return found;
}

}  // namespace

ProgramLook look_at_program(const char *path, LookAt part, int64_t &read_bytes) {
  constexpr int kMostScripts = 4;
  char head[kHeadBytes], name[kHeadBytes];
  bool is_script;
  ProgramLook found = look_at(path, part, head, is_script, read_bytes);
  for (int i = 0; is_script && i < kMostScripts; ++i) {
    memcpy(name, head, sizeof name);
    found = look_at(name, part, head, is_script, read_bytes);
  }
  return found;
}

// By the path as it is given, and by the file's own: it may be a link.
static bool is_named_by(string_view patterns, const char *path) {
  if (patterns.empty()) return false;
  if (matches_any_pattern(string_view(path), patterns)) return true;
  char link[48], target[4096];
  const int fd = sys::open(path, O_PATH);
  if (fd < 0) return false;
  Writer w(link, sizeof link);
  w << "/proc/self/fd/";
  w.number(fd);
  const long n = sys::readlink(w.c_str(), target, sizeof target);
  sys::close(fd);
  return n > 0 && matches_any_pattern({target, static_cast<size_t>(n)}, patterns);
}

bool FollowChoice::wants(const char *path, const ProgramLook &look) const {
  const Obstacle obstacle = look.obstacle;
  const bool is_unseen =
      look.calls_kernel || obstacle == Obstacle::kStatic || obstacle == Obstacle::kGo || obstacle == Obstacle::kMusl;
  const bool can_be = is_unseen || obstacle == Obstacle::kNone;
  return can_be && ((unseen && is_unseen) || is_named_by(patterns, path)) && !gives_privileges(path);
}

bool is_go_program() {
  auto *segments = reinterpret_cast<const Elf64_Phdr *>(getauxval(AT_PHDR));
  size_t count = getauxval(AT_PHNUM);
  uintptr_t base = 0;
  for (size_t i = 0; segments && i < count; ++i) {
    const Elf64_Phdr &s = segments[i];
    // A static program has no PT_PHDR: the table follows the header of the file, which the first segment begins with.
    size_t before = s.p_type == PT_LOAD && s.p_offset == 0 ? sizeof(Elf64_Ehdr) : 0;
    if (s.p_type == PT_PHDR || before) base = reinterpret_cast<uintptr_t>(segments) - before - s.p_vaddr;
  }
  for (size_t i = 0; segments && i < count; ++i) {
    const Elf64_Phdr &s = segments[i];
    if (s.p_type == PT_NOTE && has_go_note(reinterpret_cast<const char *>(base + s.p_vaddr), s.p_memsz)) return true;
  }
  return false;
}

}  // namespace tailrace
