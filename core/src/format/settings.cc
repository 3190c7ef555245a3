// See format/settings.h.
#include "format/settings.h"

#include <elf.h>

#include "base/arena.h"
#include "format/managers.h"

namespace tailrace {

constexpr SettingRow kSettings[kSettingCount] = {
#define SETTING(name, fallback, values, doc) {#name, fallback},
#include "format/settings.def"
#undef SETTING
};

namespace {

constexpr string_view kPreload = "LD_PRELOAD=";
constexpr string_view kLibrary = "libtailrace.so";

string_view copy(string_view s) {
  auto *p = static_cast<char *>(arena_allocate(s.size() + 1));
  if (!p || s.empty()) return {p, 0};
  memcpy(p, s.data(), s.size());
  return {p, s.size()};
}

const SettingRow &row_of(Setting s) { return kSettings[static_cast<size_t>(s)]; }

// Of an entry that begins otherwise nothing is read behind that: of a program's own its end may be missing.
bool begins_with(const char *entry, string_view prefix) {
  for (char c : prefix) {
    if (*entry++ != c) return false;
  }
  return true;
}

// The value when `entry` is "<name>=value".
bool value_of(const char *entry, string_view name, string_view &value) {
  if (!begins_with(entry, name) || entry[name.size()] != '=') return false;
  value = string_view(entry + name.size() + 1);
  return true;
}

bool is_setting(const char *entry) {
  string_view ignored;
  for (const SettingRow &row : kSettings) {
    if (value_of(entry, row.name, ignored)) return true;
  }
  return false;
}

bool is_this_library(string_view element) {
  return element.size() >= kLibrary.size() &&
         slice(element, element.size() - kLibrary.size(), kLibrary.size()) == kLibrary;
}

// LD_PRELOAD is separated by blanks or colons (ld.so(8)). Calls f(element) for each.
template <class F>
void each_preload(string_view list, F f) {
  for (size_t i = 0; i < list.size();) {
    size_t end = i;
    while (end < list.size() && list[end] != ':' && list[end] != ' ') ++end;
    if (end > i) f(slice(list, i, end - i));
    i = end + 1;
  }
}

// Removes the core's element from LD_PRELOAD's value, in place: the rest is never longer. A list without it is not
// touched. False when nothing is left.
bool drop_own_preload(char *list) {
  bool ours = false;
  each_preload(string_view(list), [&](string_view element) { ours = ours || is_this_library(element); });
  if (!ours) return true;
  char *p = list;
  each_preload(string_view(list), [&](string_view element) {
    if (is_this_library(element)) return;
    if (p != list) *p++ = ':';
    memmove(p, element.data(), element.size());
    p += element.size();
  });
  *p = 0;
  return p != list;
}

}  // namespace

bool read_environment(char **environment, StartEnvironment &out) {
  for (size_t i = 0; i < kSettingCount; ++i) out.values[i] = kSettings[i].fallback;
  for (char **e = environment; e && *e; ++e) {
    for (size_t i = 0; i < kSettingCount; ++i) {
      string_view value;
      if (value_of(*e, kSettings[i].name, value) && !value.empty()) out.values[i] = value;
    }
    if (begins_with(*e, kPreload)) {
      each_preload(*e + kPreload.size(), [&](string_view element) {
        if (is_this_library(element)) out.preload = element;
      });
    }
  }
  if (out[Setting::TAILRACE_RUN].empty()) return false;
  for (string_view &v : out.values) v = copy(v);
  out.preload = copy(out.preload);
  // Not on the stack, which may be small: once in a process's life.
  static char managed[kMaxTagsBytes];
  Writer tags(managed, sizeof managed);
  out.world_size = find_managed_tags(environment, tags).world_size;
  out.managed = copy(tags.view());
  return true;
}

// Ends an environment at `to` that ended at `end`. The kernel puts the auxiliary vector behind it, a list of pairs, and
// there Go's runtime looks for it: what is left over in between becomes pairs to ignore, or where it makes no whole
// pairs the end of a vector without any, which sends Go to /proc/self/auxv.
static void end_environment(char **to, char **end) {
  size_t left = static_cast<size_t>(end - to);
  *to = nullptr;
  for (size_t i = 1; i <= left; ++i) {
    bool is_type = left % 2 == 0 && i % 2 == 1;
    to[i] = reinterpret_cast<char *>(static_cast<uintptr_t>(is_type ? AT_IGNORE : AT_NULL));
  }
}

void hide_settings(char **environment) {
  if (!environment) return;
  char **to = environment, **from = environment;
  for (; *from; ++from) {
    if (is_setting(*from)) continue;
    *to = *from;
    if (begins_with(*from, kPreload) && !drop_own_preload(*from + kPreload.size())) continue;
    ++to;
  }
  end_environment(to, from);
}

void hide_identity(char **environment) {
  if (!environment) return;
  string_view ignored;
  char **to = environment, **from = environment;
  for (; *from; ++from) {
    if (!value_of(*from, row_of(Setting::TAILRACE_PROCESS).name, ignored)) *to++ = *from;
  }
  end_environment(to, from);
}

bool is_wanted_in(const StartEnvironment &start, char *const *environment) {
  if (!start.is_exposed()) return true;
  bool run = false, preloaded = start.preload.empty();
  string_view value;
  for (char *const *e = environment; e && *e; ++e) {
    run = run || (value_of(*e, row_of(Setting::TAILRACE_RUN).name, value) && !value.empty());
    if (!begins_with(*e, kPreload)) continue;
    each_preload(*e + kPreload.size(), [&](string_view element) { preloaded = preloaded || is_this_library(element); });
  }
  return run && preloaded;
}

string_view ChildEnvironment::tags_in(const StartEnvironment &start, char *const *environment) {
  string_view value;
  for (char *const *e = environment; e && *e; ++e) {
    if (!value_of(*e, row_of(Setting::TAILRACE_TAGS).name, value)) continue;
    bool started_with = start.is_exposed() && value == start[Setting::TAILRACE_TAGS];
    return started_with ? string_view() : value;
  }
  return {};
}

ChildEnvironment::ChildEnvironment(const StartEnvironment &start, string_view tags, string_view managed,
                                   string_view process, char *const *environment, string_view preload)
    : start_(start),
      tags_(tags),
      managed_(managed),
      process_(process),
      run_(start[Setting::TAILRACE_RUN]),
      preload_(preload),
      environment_(environment) {
  for (char *const *e = environment; e && *e; ++e) {
    ++count_;
    if (begins_with(*e, kPreload)) other_preloads_ = string_view(*e + kPreload.size());
  }
  bytes_ = (count_ + kSettingCount + 2) * sizeof(char *);
  for (size_t i = 0; i < kSettingCount; ++i) bytes_ += kSettings[i].name.size() + start.values[i].size() + 2;
  bytes_ += run_.size() + tags.size() + managed.size() + process.size() + kPreload.size() + preload.size() +
            other_preloads_.size() + 2;
}

static bool is_replaced(const StartEnvironment &start, const char *entry) {
  return is_setting(entry) || (!start.preload.empty() && begins_with(entry, kPreload));
}

bool take_changes(const StartEnvironment &start, char **environment, char *const *built) {
  bool changed = false;
  for (char **e = environment; e && *e; ++e) {
    if (is_replaced(start, *e)) continue;
    // Other threads may read it at the same time.
    if (*e != *built) {
      *e = *built;
      changed = true;
    }
    ++built;
  }
  return changed;
}

char **ChildEnvironment::build(void *memory) const {
  auto **entries = static_cast<char **>(memory);
  char *text = reinterpret_cast<char *>(entries + count_ + kSettingCount + 2);
  size_t n = 0;
  // The core's come last: programs that write their title over argv and the environment need the two side by side.
  for (char *const *e = environment_; e && *e; ++e) {
    if (!is_replaced(start_, *e)) entries[n++] = *e;
  }
  if (!start_.preload.empty()) {
    entries[n++] = text;
    text = put(text, kPreload);
    text = put(text, preload_);
    each_preload(other_preloads_, [&](string_view element) {
      if (is_this_library(element)) return;
      *text++ = ':';
      text = put(text, element);
    });
    *text++ = 0;
  }
  for (size_t i = 0; i < kSettingCount; ++i) {
    string_view value = start_.values[i];
    if (i == static_cast<size_t>(Setting::TAILRACE_RUN)) value = run_;
    if (i == static_cast<size_t>(Setting::TAILRACE_TAGS)) value = tags_;
    if (i == static_cast<size_t>(Setting::TAILRACE_MANAGED_TAGS)) value = managed_;
    if (i == static_cast<size_t>(Setting::TAILRACE_PROCESS)) value = process_;
    if (value.empty() || value == kSettings[i].fallback) continue;
    entries[n++] = text;
    text = put(text, kSettings[i].name);
    *text++ = '=';
    text = put(text, value);
    *text++ = 0;
  }
  entries[n] = nullptr;
  return entries;
}

char **ChildEnvironment::build_without(void *memory) const {
  auto **entries = static_cast<char **>(memory);
  char *text = reinterpret_cast<char *>(entries + count_ + kSettingCount + 2);
  size_t n = 0;
  for (char *const *e = environment_; e && *e; ++e) {
    if (is_setting(*e)) continue;
    entries[n] = *e;
    if (begins_with(*e, kPreload)) {
      // There is room for the last one, and the dynamic linker reads that.
      if (string_view(*e + kPreload.size()).data() != other_preloads_.data()) continue;
      entries[n] = text;
      text = put(put(text, kPreload), other_preloads_);
      *text++ = 0;
      if (!drop_own_preload(entries[n] + kPreload.size())) continue;
    }
    ++n;
  }
  entries[n] = nullptr;
  return entries;
}

static bool has_variable(char *const *environment, string_view name) {
  string_view ignored;
  for (char *const *e = environment; *e; ++e) {
    if (value_of(*e, name, ignored)) return true;
  }
  return false;
}

char **ChildEnvironment::build_left_out(void *memory) const {
  char **entries = build_without(memory);
  size_t n = 0, added = 0;
  while (entries[n]) ++n;
  // Behind what build_without() has put there. A line needs no more room than it has in the setting.
  char *text =
      reinterpret_cast<char *>(entries + count_ + kSettingCount + 2) + kPreload.size() + other_preloads_.size() + 1;
  string_view lines = start_[Setting::TAILRACE_UNTRACED_VARIABLES];
  for (size_t i = 0; i < lines.size() && added < kSettingCount;) {
    size_t end = i;
    while (end < lines.size() && lines[end] != '\n') ++end;
    string_view line = slice(lines, i, end - i);
    i = end + 1;
    size_t equals = line.find('=');
    if (equals == string_view::npos || has_variable(entries, slice(line, 0, equals))) continue;
    entries[n++] = text;
    entries[n] = nullptr;
    ++added;
    text = put(text, line);
    *text++ = 0;
  }
  return entries;
}

}  // namespace tailrace
