// See format/function_choice.h.
#include "format/function_choice.h"

#include "format/path_patterns.h"

namespace tailrace {
namespace {

// Calls f(pattern) for each one; false as soon as that is.
template <class F>
bool each_function_pattern(string_view patterns, F f) {
  size_t begin = 0;
  for (size_t at = 0; at <= patterns.size(); ++at) {
    if (at < patterns.size() && patterns[at] != ':') continue;
    if (at + 1 < patterns.size() && patterns[at + 1] == ':') {  // a part of a name
      ++at;
      continue;
    }
    if (!f(slice(patterns, begin, at - begin))) return false;
    begin = at + 1;
  }
  return true;
}

bool take_not(string_view &pattern) {
  const bool is_not = starts_with(pattern, "!");
  if (is_not) pattern = slice(pattern, 1, pattern.size() - 1);
  return is_not;
}

// Where a pattern of an object ends: at its slash, which an operator's name may have, too.
size_t object_end(string_view pattern) {
  const size_t slash = pattern.find('/');
  constexpr string_view kOperator = "operator";
  if (slash == string_view::npos || slash < kOperator.size()) return slash;
  const bool is_operator = slice(pattern, slash - kOperator.size(), kOperator.size()) == kOperator;
  return is_operator ? string_view::npos : slash;
}

bool matches(string_view name, string_view object, string_view pattern) {
  const size_t slash = object_end(pattern);
  if (slash != string_view::npos) {
    if (!matches_pattern(object, slice(pattern, 0, slash))) return false;
    pattern = slice(pattern, slash + 1, pattern.size() - slash - 1);
    if (pattern.empty()) return true;
  }
  const size_t n = pattern.size();
  const bool is_in = starts_with(name, pattern) && name.size() > n + 2 && name[n] == ':' && name[n + 1] == ':';
  return is_in || matches_pattern(name, pattern);
}

}  // namespace

bool are_function_patterns(string_view patterns) {
  return each_function_pattern(patterns, [](string_view pattern) {
    take_not(pattern);
    return !pattern.empty();
  });
}

bool is_function_chosen(string_view name, string_view object, string_view patterns) {
  bool is_chosen = false, is_excluded = false, chooses = false;
  each_function_pattern(patterns, [&](string_view pattern) {
    const bool is_not = take_not(pattern);
    chooses = chooses || !is_not;
    if (!pattern.empty() && matches(name, object, pattern)) (is_not ? is_excluded : is_chosen) = true;
    return true;
  });
  // With exclusions alone: all but those.
  return (is_chosen || (!chooses && !patterns.empty())) && !is_excluded;
}

}  // namespace tailrace
