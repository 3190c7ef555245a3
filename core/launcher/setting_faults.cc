// See setting_faults.h.
#include "setting_faults.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "format/setting_values.h"

namespace tailrace::launcher {
namespace {

constexpr std::string_view kPrefix = "TAILRACE_";
// A letter too many, too few or wrong, twice; two that changed places.
constexpr size_t kMostSlips = 2;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t above = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above + (a[i - 1] != b[j - 1]);
      above = row[j];
      row[j] = std::min({replaced, above + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Calls f(name, value) for each variable that is or could be a setting.
template <class F>
void each_variable(F f) {
  for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (text.substr(0, kPrefix.size()) != kPrefix || equals == std::string_view::npos) continue;
    f(text.substr(0, equals), text.substr(equals + 1));
  }
}

}  // namespace

std::optional<std::string> bad_setting() {
  std::optional<std::string> fault;
  each_variable([&](std::string_view name, std::string_view value) {
    const SettingWords *setting = find_setting(name);
    if (fault || setting == nullptr || value.empty() || is_valid_setting(*setting, value)) return;
    char room[512];
    Writer choices(room, sizeof room);
    write_setting_choices(*setting, choices);
    fault =
        std::string(name) + " is '" + std::string(value) + "': give " + std::string(choices.view()) + ", or unset it";
  });
  return fault;
}

std::vector<std::string> mistyped_settings() {
  std::vector<std::string> out;
  each_variable([&](std::string_view name, std::string_view) {
    if (find_setting(name) != nullptr) return;
    const SettingWords *nearest = nullptr;
    size_t least = kMostSlips + 1;
    for (size_t i = 0; i < kSettingWordsCount; ++i) {
      const std::string_view known = kSettingWords[i].name;
      const size_t distance = edit_distance(name.substr(kPrefix.size()), known.substr(kPrefix.size()));
      // RUNS is not a slip of TAGS: most letters must be right.
      if (distance >= least || 2 * distance >= known.size() - kPrefix.size()) continue;
      least = distance;
      nearest = &kSettingWords[i];
    }
    if (nearest != nullptr)
      out.push_back("there is no setting " + std::string(name) + ": is " + std::string(nearest->name) + " meant?");
  });
  return out;
}

}  // namespace tailrace::launcher
