// See format/path_patterns.h.
#include "format/path_patterns.h"

namespace tailrace {

// Where a byte differs, only the last `*` may take one more: time is bounded by the product of the lengths.
bool matches_pattern(string_view text, string_view pattern) {
  size_t t = 0, p = 0, star = string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool matches_any_pattern(string_view path, string_view patterns) {
  size_t name = path.size();
  while (name > 0 && path[name - 1] != '/') --name;
  return !each_part(patterns, ':', [&](string_view pattern) {
    const string_view text = pattern.find('/') != string_view::npos ? path : slice(path, name, path.size() - name);
    return pattern.empty() || !matches_pattern(text, pattern);
  });
}

bool is_left_to_totals(string_view path, string_view included, string_view excluded) {
  return (!included.empty() && !matches_any_pattern(path, included)) || matches_any_pattern(path, excluded);
}

}  // namespace tailrace
