// See program_environment.h.
#include "program_environment.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "format/managers.h"

namespace tailrace::launcher {
namespace {

struct Found {
  std::string tags;
  uint32_t world_size;
};

Found found_in(std::string &environment) {
  std::vector<char *> entries;
  for (size_t at = 0; at < environment.size(); at = std::min(environment.find('\0', at), environment.size() - 1) + 1) {
    entries.push_back(environment.data() + at);
  }
  entries.push_back(nullptr);
  std::string room(kMaxTagsBytes, '\0');
  Writer out(room.data(), room.size());
  const uint32_t size = find_managed_tags(entries.data(), out);
  return {std::string(out.view()), size};
}

}  // namespace

std::optional<std::string> variable(const std::string &environment, std::string_view name) {
  for (size_t at = 0; at < environment.size();) {
    const size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view entry(environment.data() + at, end - at);
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.substr(0, name.size()) == name)
      return std::string(entry.substr(name.size() + 1));
    at = end + 1;
  }
  return std::nullopt;
}

ProgramTags tags_of_program(std::string environment, const ProgramTags &before) {
  const std::optional<std::string> given = variable(environment, "TAILRACE_TAGS");
  const std::optional<std::string> managed = variable(environment, "TAILRACE_MANAGED_TAGS");
  const std::string inherited = managed ? *managed : given ? "" : before.managed;
  const auto work = std::make_unique<TagsOfProcess>();
  const ProcessTags tags = tags_of_process(given ? *given : before.all, inherited, found_in(environment).tags, *work);
  return {std::string(tags.all), std::string(tags.managed)};
}

uint32_t world_size(std::string environment) { return found_in(environment).world_size; }

}  // namespace tailrace::launcher
