// See program_environment.h.
#include "program_environment.h"

#include <algorithm>
#include <memory>

#include "format/managers.h"

namespace tailrace::launcher {
namespace {

struct Row {
  const char *manager;  // null: of the one before
  const char *variable;
};

constexpr Row kRows[] = {
#define MANAGER(name, mark) {name, mark},
#define WORKER(name, mark) {name, mark},
#define VARIABLE(tag, before, variable, nothing) {nullptr, variable},
#define PATH_END(tag, variable) {nullptr, variable},
#define FROM_ONE(tag, variable) {nullptr, variable},
#define JOB_AD(tag, before, attribute)
#define WORLD_SIZE(variable) {nullptr, variable},
#include "format/managers.def"
#undef MANAGER
#undef WORKER
#undef VARIABLE
#undef PATH_END
#undef FROM_ONE
#undef JOB_AD
#undef WORLD_SIZE
};

bool is_set(const Environment &environment, const char *name) {
  const char *value = environment.get(name);
  return value && *value;
}

}  // namespace

Environment parsed_environment(const std::string &text) {
  std::vector<std::string> entries;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    entries.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return Environment(std::move(entries));
}

ProgramTags tags_of_program(const Environment &environment, const ProgramTags &before) {
  const char *given = environment.get("TAILRACE_TAGS"), *managed = environment.get("TAILRACE_MANAGED_TAGS");
  const std::string inherited = managed ? managed : given ? "" : before.managed;
  const auto work = std::make_unique<TagsOfProcess>();
  const ProcessTags tags =
      tags_of_process(given ? given : before.all, inherited, managed_tags(environment).tags, *work);
  return {std::string(tags.all), std::string(tags.managed)};
}

ManagedTags managed_tags(const Environment &environment) {
  ManagedTags out;
  const char *manager = nullptr;
  for (const Row &row : kRows) {
    const bool set = is_set(environment, row.variable);
    if (row.manager) manager = set ? row.manager : nullptr;
    if (!manager || !set) continue;
    const std::pair<std::string, std::string> found(manager, row.variable);
    const bool known = std::find(out.variables.begin(), out.variables.end(), found) != out.variables.end();
    if (!known) out.variables.push_back(found);
  }
  std::string room(kMaxTagsBytes, '\0');
  Writer tags(room.data(), room.size());
  out.world_size = find_managed_tags(environment.pointers().data(), tags).world_size;
  out.tags = tags.view();
  return out;
}

}  // namespace tailrace::launcher
