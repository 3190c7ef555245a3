// What goes into a program that is started: the environment with our settings put back, and whether the program can
// carry us.
#pragma once

#include "session.h"

namespace tailrace {

// This process is traced (a vfork child counts: it starts programs, though it records nothing).
bool is_injecting();

class Injection {
 public:
  // kSameProcess: execve, the next image goes on with this process's journal.
  enum Kind { kSameProcess, kOtherProcess };
  Injection(char *const *environment, Kind kind);
  ~Injection();
  Injection(const Injection &) = delete;
  Injection &operator=(const Injection &) = delete;
  size_t bytes() const { return child_.bytes(); }
  char **build(void *memory) const { return child_.build(memory); }

 private:
  string_view tags_for(char *const *environment);
  string_view lay_over(string_view own, string_view set);
  string_view write_process(Kind kind);

  struct Merge;
  Merge *merge_ = nullptr;  // only when the program set tags for its child itself
  char process_[96];
  ChildEnvironment child_;
};

// False where the library can't be reached, for a program that is left out by TAILRACE_UNTRACED, and for one that would
// be broken or troubled by the preload: another machine's or word size's, or musl's (its loader fails on a glibc
// library). A script counts as its interpreter. What can't be read counts as able: execve will say.
bool carries_preload(const char *path);

// Where execvp would find `file`, in `out`; or `file` itself. PATH is the caller's.
const char *search_path(const char *file, char *out, size_t size);

// Small blocks that outlive a call.
void *take_thread_start(size_t n);
void give_thread_start(void *block);

}  // namespace tailrace
