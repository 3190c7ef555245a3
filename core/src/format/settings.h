// The settings table (settings.def) and the environment: reading the settings, hiding them, injecting them into
// programs that are started.
#pragma once

#include <stddef.h>

#include "base/text.h"

namespace tailrace {

enum class Setting {
#define SETTING(name, fallback, values, doc) name,
#include "format/settings.def"
#undef SETTING
  kCount
};
constexpr size_t kSettingCount = static_cast<size_t>(Setting::kCount);

// What else the table has of a setting is in setting_values.h: every traced process has these in memory.
struct SettingRow {
  string_view name;
  string_view fallback;
};
extern const SettingRow kSettings[kSettingCount];

// The settings that the process was started with: copies, since a program may overwrite its environment's memory
// (setproctitle).
struct StartEnvironment {
  string_view values[kSettingCount];
  string_view preload;      // the LD_PRELOAD element that is this library; empty when it was loaded otherwise
  string_view managed;      // tags from the managers' own variables (managers.h)
  uint32_t world_size = 0;  // how many ranks there are, by them; 0: they don't say

  string_view operator[](Setting s) const { return values[static_cast<size_t>(s)]; }
  // TAILRACE_PROPAGATE=environment: the settings are visible, and the program may remove them.
  bool is_exposed() const { return (*this)[Setting::TAILRACE_PROPAGATE] == "environment"; }
};

// Reads `environment`. Returns false, with nothing done, when TAILRACE_RUN isn't there.
bool read_environment(char **environment, StartEnvironment &out);

// Removes the settings and the core's element of LD_PRELOAD, in place: the program sees its untraced environment.
void hide_settings(char **environment);
// TAILRACE_PROPAGATE=environment: removes only what no child of the program may have.
void hide_identity(char **environment);

// False where the program removed the settings from a child's environment, as TAILRACE_PROPAGATE allows.
bool is_wanted_in(const StartEnvironment &start, char *const *environment);

// The environment for a program that is started: the caller's, with the settings injected.
class ChildEnvironment {
 public:
  // `managed`: those of `tags` that a manager's variables gave.
  // `preload`: in place of the one that this process was started with.
  ChildEnvironment(const StartEnvironment &start, string_view tags, string_view managed, string_view process,
                   char *const *environment, string_view preload);
  // Memory that build() needs, for alloca: a vfork child may neither allocate nor leak in its parent.
  size_t bytes() const { return bytes_; }
  string_view tags() const { return tags_; }
  char **build(void *memory) const;
  // The caller's without the settings, for a program that can't be traced.
  char **build_without(void *memory) const;
  // As build_without(), with the variables of TAILRACE_UNTRACED_VARIABLES, for a program that is left out.
  char **build_left_out(void *memory) const;
  // TAILRACE_TAGS as the program itself set it in the caller's environment; empty where it did not.
  static string_view tags_in(const StartEnvironment &start, char *const *environment);

 private:
  const StartEnvironment &start_;
  string_view tags_, managed_, process_, run_, preload_;
  char *const *environment_;
  string_view other_preloads_;
  size_t count_ = 0, bytes_ = 0;
};

// Copies the entries that were changed since ChildEnvironment::build() made its result from `environment` into
// `environment`. Returns whether there were any.
bool take_changes(const StartEnvironment &start, char **environment, char *const *built);

}  // namespace tailrace
