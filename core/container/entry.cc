// libtailrace-entry.so: what is preloaded into the first program of a container.
//
// An image may have any libc. The core would end a program of musl, and one of a glibc older than the core's, before it
// begins: the dynamic linker finds symbols missing. This library needs none, so it loads into all of them. Where the
// libc can have the core, it executes the program again with the core in its place; else it removes the settings, and
// the program runs untraced.
//
// Invariants: no function of a libc but the one that tells its version; no other library is needed. A program that
// can't be executed again goes on as it is.
//
// Rejected: $LIB in LD_PRELOAD, which musl doesn't expand, and which helps against no old glibc; to look for the libc
// in the image, which may be a compressed file.
#include <elf.h>

#include "base/sys.h"

extern "C" {
// glibc's alone.
__attribute__((weak)) const char *gnu_get_libc_version();
// musl passes a constructor nothing.
extern __attribute__((weak)) char **__environ;
}

namespace {

using tailrace::sys::call;
using tailrace::sys::pointer;

constexpr char kEntry[] = "libtailrace-entry.so";
constexpr char kCore[] = "libtailrace.so";
constexpr char kPreload[] = "LD_PRELOAD=";
constexpr char kSetting[] = "TAILRACE_";

bool begins(const char *text, const char *with) {
  while (*with && *text == *with) ++text, ++with;
  return !*with;
}

bool is_same(const char *a, const char *b) { return begins(a, b) && begins(b, a); }

// The element of LD_PRELOAD that is called `name`: where that name begins. Null when there is none.
char *find_name(char *list, const char *name) {
  for (char *at = list; *at; ++at) {
    if (*at != '/' || !begins(at + 1, name)) continue;
    const char *after = at + 1;
    for (const char *part = name; *part; ++part) ++after;
    if (!*after || *after == ':' || *after == ' ') return at + 1;
  }
  return nullptr;
}

void move_down(char *to, const char *from) {
  while ((*to++ = *from++)) {
  }
}

char *preload_of(char **environment) {
  for (char **e = environment; e && *e; ++e) {
    if (begins(*e, kPreload)) return *e + sizeof kPreload - 1;
  }
  return nullptr;
}

// Names the core in this library's place. False where it is missing.
bool name_core(char *list) {
  char *name = find_name(list, kEntry);
  if (!name) return false;
  char *begin = name;
  while (begin > list && begin[-1] != ':' && begin[-1] != ' ') --begin;
  for (unsigned long i = 0; i + 1 < sizeof kCore; ++i) name[i] = kCore[i];
  char *end = name + sizeof kCore - 1;
  const char *rest = name + sizeof kEntry - 1;
  *end = 0;
  constexpr long kReadable = 4;
  bool is_there = call(SYS_faccessat, AT_FDCWD, pointer(begin), kReadable) == 0;
  move_down(end, rest);
  return is_there;
}

// The list without the element of that name.
bool drop_element(char *list, const char *of) {
  char *name = find_name(list, of);
  if (!name) return false;
  char *begin = name, *end = name;
  while (begin > list && begin[-1] != ':' && begin[-1] != ' ') --begin;
  while (*end && *end != ':' && *end != ' ') ++end;
  if (*end)
    ++end;
  else if (begin > list)
    --begin;
  move_down(begin, end);
  return true;
}

// As the program would see it untraced.
void remove_settings(char **environment) {
  char **to = environment, **from = environment;
  for (; *from; ++from) {
    if (begins(*from, kSetting)) continue;
    if (begins(*from, kPreload)) {
      char *list = *from + sizeof kPreload - 1;
      const bool is_ours = drop_element(list, kEntry) || drop_element(list, kCore);
      if (is_ours && !*list) continue;
    }
    *to++ = *from;
  }
  // Up to the auxiliary vector, which is found behind the environment: pairs to ignore, as in format/settings.cc.
  auto left = static_cast<unsigned long>(from - to);
  *to = nullptr;
  for (unsigned long i = 1; i <= left; ++i)
    to[i] = reinterpret_cast<char *>(static_cast<unsigned long>(left % 2 == 0 && i % 2 == 1 ? AT_IGNORE : AT_NULL));
}

// A glibc at least as new as the one that the core was built with.
bool can_have_core() {
  if (!gnu_get_libc_version) return false;
  const char *version = gnu_get_libc_version();
  if (!begins(version, "2.")) return false;
  int minor = 0;
  for (const char *digit = version + 2; *digit >= '0' && *digit <= '9'; ++digit) minor = minor * 10 + (*digit - '0');
  return minor >= __GLIBC_MINOR__;
}

unsigned long auxiliary(char **environment, unsigned long type) {
  while (*environment) ++environment;
  for (auto *pair = reinterpret_cast<unsigned long *>(environment + 1); pair[0] != AT_NULL; pair += 2) {
    if (pair[0] == type) return pair[1];
  }
  return 0;
}

void execute(const char *path, char **argv, char **environment) {
  call(SYS_execve, pointer(path), pointer(argv), pointer(environment));
}

// By the name that it was started by, so that it keeps its name in lists of processes. The kernel has put a script's
// interpreter and the script before its words; by the script's name it does so again.
void execute_again(const char *name, char **argv, char **environment) {
  char head[4] = {};
  int fd = tailrace::sys::open(name, O_RDONLY);
  if (fd >= 0) {
    tailrace::sys::read(fd, head, sizeof head);
    tailrace::sys::close(fd);
  }
  if (head[0] == '\x7f' && head[1] == 'E') execute(name, argv, environment);
  if (head[0] == '#' && head[1] == '!') {
    for (int i = 1; i <= 2 && argv[i - 1] && argv[i]; ++i) {
      if (is_same(argv[i], name)) return execute(name, argv + i, environment);
    }
  }
  execute("/proc/self/exe", argv, environment);
}

__attribute__((constructor)) void enter_container(int, char **argv, char **environment) {
  if (!gnu_get_libc_version) {  // the arguments are not there
    if (&__environ && __environ) remove_settings(__environ);
    return;
  }
  // The dynamic linker as the program, with the program as its argument: it could not be told from its own words.
  const bool is_linker = auxiliary(environment, AT_BASE) == 0;
  auto *name = reinterpret_cast<const char *>(auxiliary(environment, AT_EXECFN));
  char *preload = preload_of(environment);
  if (!is_linker && name && preload && can_have_core() && name_core(preload)) execute_again(name, argv, environment);
  remove_settings(environment);
}

}  // namespace
