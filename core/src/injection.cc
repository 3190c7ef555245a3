// See injection.h.
#include "injection.h"

#include <elf.h>
#include <stdlib.h>

#include "arena.h"
#include "files.h"
#include "ledger.h"
#include "sys.h"

namespace tailrace {

bool is_injecting() {
  // A vfork child may be the first to ask in a process that has recorded nothing yet.
  if (!t_vfork) enter();
  return g_session.state.load(std::memory_order_acquire) == State::kOn;
}

// Working memory for laying tags over others, too big for any stack.
struct Injection::Merge {
  TagSet base, over;
  char message[256];
  char merged[kMaxTagsBytes + 1];
};

string_view Injection::tags_for(char *const *environment) {
  string_view own = current_context()->tags();
  string_view set = ChildEnvironment::tags_in(environment);
  // Our variables are hidden from the program, so if there are any it has put them there for its child: they are laid
  // over.
  return set.empty() ? own : lay_over(own, set);
}

string_view Injection::lay_over(string_view own, string_view set) {
  merge_ = static_cast<Merge *>(sys::allocate_pages(sizeof(Merge)));
  if (!merge_) return own;
  size_t at;
  Writer faults(merge_->message, sizeof merge_->message), merged(merge_->merged, sizeof merge_->merged);
  if (!parse_tags(own, merge_->base, at, faults) || !parse_tags(set, merge_->over, at, faults)) return own;
  return merge_tags(merge_->base, merge_->over, merged) ? merged.view() : own;
}

Injection::~Injection() {
  if (merge_) sys::munmap(merge_, sizeof(Merge));
}

string_view Injection::write_process(Kind kind) {
  Writer w(process_, sizeof process_);
  if (kind == kSameProcess) write_process_identity(w);
  return w.view();
}

Injection::Injection(char *const *environment, Kind kind)
    : child_(g_session.environment, tags_for(environment), write_process(kind), environment) {}

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
#endif

long read_own(int fd, void *to, size_t n, int64_t at) {
  long got = sys::pread(fd, to, n, at);
  count_own(got, 0);
  return got;
}

// The program's dynamic linker is musl's.
bool wants_musl(int fd, const Elf64_Ehdr &elf) {
  for (unsigned i = 0; i < elf.e_phnum && i < 64; ++i) {
    Elf64_Phdr segment;
    int64_t at = static_cast<int64_t>(elf.e_phoff) + static_cast<int64_t>(i) * elf.e_phentsize;
    if (read_own(fd, &segment, sizeof segment, at) != sizeof segment) return false;
    if (segment.p_type != PT_INTERP) continue;
    char linker[256];
    size_t n = segment.p_filesz < sizeof linker ? segment.p_filesz : sizeof linker;
    long got = read_own(fd, linker, n, static_cast<int64_t>(segment.p_offset));
    return got > 0 && string_view(linker, static_cast<size_t>(got)).find("/ld-musl-") != string_view::npos;
  }
  return false;
}

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

bool carries(const char *path, int depth) {
  int fd = sys::open(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return true;
  char head[256];
  long n = read_own(fd, head, sizeof head, 0);
  bool able = true;
  if (n >= static_cast<long>(sizeof(Elf64_Ehdr)) && memcmp(head, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr elf;
    memcpy(&elf, head, sizeof elf);
    able = elf.e_ident[EI_CLASS] == ELFCLASS64 && elf.e_machine == kMachine && !wants_musl(fd, elf);
  }
  sys::close(fd);
  if (n > 0 && depth > 0 && interpreter_of(head, static_cast<size_t>(n))) return carries(head, depth - 1);
  return able;
}

bool is_executable(const char *path) {
  struct statx s;
  return sys::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE, &s) == 0 && S_ISREG(s.stx_mode) &&
         (s.stx_mode & 0111);
}

}  // namespace

// In a chroot or another mount namespace the library may not be there: the loader would say so on the program's stderr.
static bool library_is_here() {
  struct statx s;
  string_view path = g_session.environment.preload;
  // A bare name is looked for by the loader; copies of settings are terminated.
  if (path.find('/') == string_view::npos) return true;
  return sys::statx(AT_FDCWD, path.data(), AT_STATX_DONT_SYNC, STATX_TYPE, &s) == 0;
}

// One of TAILRACE_UNTRACED. By identity, since a program has many names: links, and views of a package manager.
static bool is_left_out(const char *path) {
  string_view list = g_session.environment[Setting::TAILRACE_UNTRACED];
  struct statx wanted, one;
  constexpr unsigned kIdentity = STATX_TYPE | STATX_INO;
  if (list.empty() || sys::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, kIdentity, &wanted) != 0) return false;
  for (size_t i = 0; i < list.size();) {
    size_t end = i;
    while (end < list.size() && list[end] != ':') ++end;
    char program[512];  // the thread may have a small stack; what is longer is no program's path
    Writer w(program, sizeof program);
    w << slice(list, i, end - i);
    if (sys::statx(AT_FDCWD, w.c_str(), AT_STATX_DONT_SYNC, kIdentity, &one) == 0 && one.stx_ino == wanted.stx_ino &&
        one.stx_dev_major == wanted.stx_dev_major && one.stx_dev_minor == wanted.stx_dev_minor) {
      return true;
    }
    i = end + 1;
  }
  return false;
}

bool carries_preload(const char *path) {
  return library_is_here() && (!path || !reads_as_string(path) || (!is_left_out(path) && carries(path, 4)));
}

const char *search_path(const char *file, char *out, size_t size) {
  if (!file || !reads_as_string(file) || string_view(file).find('/') != string_view::npos) return file;
  const char *list = getenv("PATH");
  string_view all = list ? string_view(list) : string_view("/bin:/usr/bin");
  for (size_t i = 0; i <= all.size();) {
    size_t end = i;
    while (end < all.size() && all[end] != ':') ++end;
    Writer w(out, size);
    if (end > i) w << slice(all, i, end - i) << '/';
    w << file;
    if (is_executable(w.c_str())) return out;
    i = end + 1;
  }
  return file;
}

void *take_thread_start(size_t n) {
  Locked lock(g_session.wiped->table);
  return pool_take(n);
}

void give_thread_start(void *block) {
  Locked lock(g_session.wiped->table);
  pool_give(block, 64);
}

}  // namespace tailrace
