// Patterns of paths, separated by colons: `*` is any text, also with a slash, `?` one byte. A pattern without a slash
// is of the path's last name.
#pragma once

#include "base/text.h"

namespace tailrace {

bool matches_pattern(string_view text, string_view pattern);
bool matches_any_pattern(string_view path, string_view patterns);

// Whether calls on the file are totals under any detail, by the values of TAILRACE_INCLUDE and TAILRACE_EXCLUDE.
bool is_left_to_totals(string_view path, string_view included, string_view excluded);

}  // namespace tailrace
