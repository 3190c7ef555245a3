// The environment: lines of the input are its strings. Settings are read and hidden, then injected into a child.
#include "format/settings.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fuzz.h"

using namespace tailrace;
using fuzz::require;

namespace {

// Each string is an allocation of its own, so that the sanitizer checks its end.
class Environment {
 public:
  explicit Environment(const std::string &text) {
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string entry = text.substr(at, end - at);
      auto copy = std::make_unique<char[]>(entry.size() + 1);
      memcpy(copy.get(), entry.c_str(), entry.size() + 1);
      pointers_.push_back(copy.get());
      strings_.push_back(std::move(copy));
      at = end + 1;
    }
    pointers_.push_back(nullptr);
  }
  char **get() { return pointers_.data(); }

 private:
  std::vector<std::unique_ptr<char[]>> strings_;
  std::vector<char *> pointers_;
};

std::vector<std::string> foreign(char *const *environment) {
  std::vector<std::string> found;
  for (char *const *e = environment; *e; ++e) {
    std::string entry = *e;
    bool ours = entry.compare(0, 11, "LD_PRELOAD=") == 0;
    for (const SettingRow &row : kSettings)
      ours = ours || entry.compare(0, row.name.size() + 1, std::string(row.name) + '=') == 0;
    if (!ours) found.push_back(entry);
  }
  return found;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Environment environment(std::string(reinterpret_cast<const char *>(data), size));
  std::vector<std::string> before = foreign(environment.get());
  StartEnvironment start;
  bool traced = read_environment(environment.get(), start);
  hide_settings(environment.get());
  require(foreign(environment.get()) == before, "other variables stay, in their order");
  for (char **e = environment.get(); *e; ++e) {
    for (const SettingRow &row : kSettings) {
      string_view name = row.name;
      require(!starts_with(*e, name) || (*e)[name.size()] != '=', "settings are hidden");
    }
  }
  if (traced) {
    string_view tags = ChildEnvironment::tags_in(start, environment.get());
    ChildEnvironment child(start, tags, start.managed, "1:2:3:0", environment.get(), start.preload);
    std::unique_ptr<char[]> memory(new char[child.bytes()]);
    char **built = child.build(memory.get());
    require(foreign(built) == before, "a child has what its parent has");
    StartEnvironment again;
    require(read_environment(built, again), "a child is traced");
    require(again[Setting::TAILRACE_RUN] == start[Setting::TAILRACE_RUN], "into the same run");
    require(again.preload == start.preload, "by the same library");
    require(is_wanted_in(again, built), "with all of the settings");
    ChildEnvironment grandchild(again, "", "", "", built, again.preload);
    std::unique_ptr<char[]> bare(new char[grandchild.bytes()]);
    StartEnvironment never;
    require(!read_environment(grandchild.build_without(bare.get()), never), "a child that can't be traced is not");
  }
  fuzz::forget_arena();
  return 0;
}
