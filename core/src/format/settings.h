// The settings table (settings.def) and the environment: reading ours, hiding them, giving them to programs that are
// started.
#pragma once

#include <stddef.h>

#include "base/text.h"

namespace tailrace {

enum class Setting {
#define SETTING(name, fallback, doc) name,
#include "format/settings.def"
#undef SETTING
  kCount
};
constexpr size_t kSettingCount = static_cast<size_t>(Setting::kCount);

struct SettingRow {
  string_view name;
  string_view fallback;
  string_view doc;
};
extern const SettingRow kSettings[kSettingCount];

// What the process was started with: copies, since a program may overwrite its environment's memory (setproctitle).
struct StartEnvironment {
  string_view values[kSettingCount];
  string_view preload;  // the LD_PRELOAD element that is this library; empty when it came another way
  string_view job;      // from the resource manager's own variables, not encoded
  string_view rank;

  string_view operator[](Setting s) const { return values[static_cast<size_t>(s)]; }
  // Our settings are no secret, and the program's to take out.
  bool is_exposed() const { return (*this)[Setting::TAILRACE_PROPAGATE] == "environment"; }
};

// Reads `environment`. Returns false, with nothing done, when TAILRACE_RUN isn't there.
bool read_environment(char **environment, StartEnvironment &out);

// Takes our settings and our element of LD_PRELOAD out, in place: the program sees what it would see untraced.
void hide_settings(char **environment);
// TAILRACE_PROPAGATE=environment: only what no child of the program is to have.
void hide_identity(char **environment);

// False where the program took our settings out of the environment for a child, and that is its right.
bool is_wanted_in(const StartEnvironment &start, char *const *environment);

// The environment for a program that is started: the caller's, with ours put back.
class ChildEnvironment {
 public:
  ChildEnvironment(const StartEnvironment &start, string_view tags, string_view process, char *const *environment);
  // Memory that build() needs, for alloca: a vfork child may neither allocate nor leak in its parent.
  size_t bytes() const { return bytes_; }
  char **build(void *memory) const;
  // The caller's without ours, for a program that can't carry us.
  char **build_without(void *memory) const;
  // TAILRACE_TAGS as the program itself set it in the caller's environment; empty where it did not.
  static string_view tags_in(const StartEnvironment &start, char *const *environment);

 private:
  const StartEnvironment &start_;
  string_view tags_, process_;
  char *const *environment_;
  string_view other_preloads_;
  size_t count_ = 0, bytes_ = 0;
};

// The entries that were changed in what ChildEnvironment::build() made of `environment` become its own. Returns whether
// there were any.
bool take_changes(const StartEnvironment &start, char **environment, char *const *built);

}  // namespace tailrace
