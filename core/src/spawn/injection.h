// Injection: the environment of a program that is started, with the settings put back, and whether the program can
// carry the library.
#pragma once

#include "format/program.h"
#include "session/files.h"
#include "session/session.h"

namespace tailrace {

class Program;

// Whether this process is traced. A vfork child is: it starts programs, though it records nothing.
bool is_injecting();

// Whether a program's environment can be read: the pointers, and of the entries what is looked at here. The kernel
// refuses one that can't, so the call is its to answer.
bool reads_as_environment(char *const *environment);

class Injection {
 public:
  // kSameProcess: execve, whose next image continues this process's journal.
  enum Kind { kSameProcess, kOtherProcess };
  Injection(char *const *environment, Kind kind);
  ~Injection();
  Injection(const Injection &) = delete;
  Injection &operator=(const Injection &) = delete;
  size_t bytes() const { return child_.bytes(); }
  // The program's context.
  string_view tags() const { return child_.tags(); }
  // The environment for the program in place of the caller's.
  char *const *build(const Program &program, void *memory) const;

 private:
  string_view tags_for(char *const *environment);
  string_view merge(string_view own, string_view set);
  string_view write_process(Kind kind);

  char *const *environment_;
  struct Merge;
  Merge *merge_ = nullptr;  // only when the program set tags for its child itself
  char process_[96];
  ChildEnvironment child_;
};

// Declares `room` for Injection::build(): on the stack, which may be small, or in pages.
#define ROOM_FOR_ENVIRONMENT(injection)                       \
  EnvironmentPages pages_of_environment((injection).bytes()); \
  void *room = pages_of_environment.at();                     \
  if (!room) room = alloca((injection).bytes());

class EnvironmentPages {
 public:
  explicit EnvironmentPages(size_t bytes);
  ~EnvironmentPages();
  EnvironmentPages(const EnvironmentPages &) = delete;
  EnvironmentPages &operator=(const EnvironmentPages &) = delete;
  void *at() const { return pages_; }

 private:
  size_t bytes_;
  void *pages_;
};

// A program that is about to be started. The path comes from the traced program and may be a bad pointer.
class Program {
 public:
  // `environment`: the caller's.
  Program(const char *path, char *const *environment);
  const char *path() const { return path_; }  // null when it can't be read
  Obstacle obstacle() const { return obstacle_; }
  // Before an execve by this process, which may have become a user without a place for records.
  void look_for_place();
  // Whether the user wants it followed from outside. Then the library in it, if it is there, stays passive.
  bool is_to_be_followed() const { return is_to_be_followed_; }
  // False where the library is out of reach or would break the program, and for programs in TAILRACE_UNTRACED.
  bool carries_preload() const { return carries_; }
  // After E2BIG: it goes without the settings. False where it has none.
  bool leave_out_settings();

  // In a vfork child: leaves the program for its parent's record before execve, and takes it back when that failed.
  void leave_to_parent() const;
  static void take_back();
  // In the parent.
  static Obstacle take_from_child(int pid, NamedFile &file);

 private:
  const char *path_;
  Obstacle obstacle_ = Obstacle::kNone;
  bool carries_;
  bool is_to_be_followed_ = false;
};

// Where execvp would find `file`, in `out`; or `file` itself. PATH is the caller's.
const char *search_path(const char *file, char *out, size_t size);

}  // namespace tailrace
