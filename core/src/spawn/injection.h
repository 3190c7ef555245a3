// What goes into a program that is started: the environment with our settings put back, and whether the program can
// carry us.
#pragma once

#include "format/program.h"
#include "session/files.h"
#include "session/session.h"

namespace tailrace {

class Program;

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
  // What the program is given instead of the caller's environment.
  char *const *build(const Program &program, void *memory) const;

 private:
  string_view tags_for(char *const *environment);
  string_view lay_over(string_view own, string_view set);
  string_view write_process(Kind kind);

  char *const *environment_;
  struct Merge;
  Merge *merge_ = nullptr;  // only when the program set tags for its child itself
  char process_[96];
  ChildEnvironment child_;
};

// A program that is about to be started. The path is the program's own and may be a bad pointer.
class Program {
 public:
  // `environment` is what the caller would give it.
  Program(const char *path, char *const *environment);
  const char *path() const { return path_; }  // null when it is no path
  Obstacle obstacle() const { return obstacle_; }
  // False where the library can't be reached or would break the program, and where TAILRACE_UNTRACED names it.
  bool carries_preload() const { return carries_; }

  // In a vfork child: for its parent's record, before execve; and when that failed.
  void leave_to_parent() const;
  static void take_back();
  // In the parent.
  static Obstacle take_from_child(int pid, NamedFile &file);

 private:
  const char *path_;
  Obstacle obstacle_ = Obstacle::kNone;
  bool carries_;
};

// Where execvp would find `file`, in `out`; or `file` itself. PATH is the caller's.
const char *search_path(const char *file, char *out, size_t size);

// Small blocks that outlive a call.
void *take_thread_start(size_t n);
void give_thread_start(void *block);

}  // namespace tailrace
