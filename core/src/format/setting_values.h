// What the settings' table (settings.def) says of values: which are valid, in words and by a check. For who launches; a
// traced process takes its settings as they come.
#pragma once

#include "base/text.h"

namespace tailrace {

struct SettingWords {
  string_view name;
  string_view fallback;
  string_view values;  // the table's column
  string_view doc;
  bool of_core;  // false: only the launcher reads it
};
extern const SettingWords kSettingWords[];
extern const size_t kSettingWordsCount;

// Null: there is no such setting.
const SettingWords *find_setting(string_view name);

// The valid values in words: "full, totals, auto or auto:BYTES (as in auto:16M)".
void write_setting_choices(const SettingWords &setting, Writer &out);

bool is_valid_setting(const SettingWords &setting, string_view value);

}  // namespace tailrace
