// See format/choices.h.
#include "format/choices.h"

#include "format/path_patterns.h"

namespace tailrace {
namespace {

// "all", "none", or names of a table separated by commas, as bits; `otherwise` where one is unknown.
template <size_t N>
bool parse_names(string_view text, const string_view (&names)[N], uint32_t all, uint32_t otherwise, uint32_t &out) {
  out = text == "all" ? all : text == "none" ? 0 : otherwise;
  if (text.empty() || text == "all" || text == "none") return true;
  uint32_t chosen;
  const bool known = read_names(text, names, chosen);
  if (known) out = chosen;
  return known;
}

uint64_t unit_ns(string_view unit) {
  return unit == "us" ? 1000 : unit == "ms" ? 1'000'000 : unit == "s" ? 1'000'000'000 : 0;
}

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

bool parse_detail(string_view text, Detail &out) {
  out = {};
  if (text == "full") return true;
  out.kind = DetailKind::kTotals;
  if (text == "totals") return true;
  constexpr string_view kAuto = "auto";
  if (!starts_with(text, kAuto)) return false;
  out = {DetailKind::kAuto, kDefaultBudgetBytes};
  text = slice(text, kAuto.size(), text.size() - kAuto.size());
  if (text.empty()) return true;
  if (text[0] != ':') return false;
  text = slice(text, 1, text.size() - 1);
  if (!take_decimal(text, out.budget_bytes)) return false;
  int shift = text == "K" ? 10 : text == "M" ? 20 : text == "G" ? 30 : 0;
  if (!shift && !text.empty()) return false;
  if (out.budget_bytes > UINT64_MAX >> shift) return false;
  out.budget_bytes <<= shift;
  return true;
}

bool parse_layers(string_view text, uint32_t &out) {
  return parse_names(text, kLayerNames, kLayersOfAll, kLayersOfAll, out);
}

bool parse_annotations(string_view text, uint32_t &out) {
  return parse_names(text, kAnnotationNames, (1U << kAnnotationCount) - 1, 0, out);
}

bool parse_stacks(string_view text, StackChoice &out) {
  out = {};
  if (text == "off") return true;
  return each_part(text, ',', [&](string_view part) {
    constexpr uint64_t kMost = 1'000'000'000;
    uint64_t number;
    if (!take_decimal(part, number) || number == 0 || number > kMost) return false;
    uint64_t &chosen = part.empty() ? out.each : out.slower_than_ns;
    if (chosen) return false;
    chosen = part.empty() ? number : number * unit_ns(part);
    return chosen != 0;
  });
}

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
