// Tags of a process that its workflow or resource manager gives by variables of its own (managers.def).
//
// They are kept apart from those that the user or an adapter gave (TAILRACE_MANAGED_TAGS), since a job's own variables
// win over inherited ones only. Rejected: to leave them out of the child's tags, since a task that clears its
// environment (cwltool, `env -i`) would lose its job.
#pragma once

#include <stddef.h>

#include "base/text.h"
#include "format/tags.h"

namespace tailrace {

// The keys that managers.def may give. The first four are of one task: they come from one manager.
enum class ManagedTag : uint8_t { workflow, stage, task, try_, job, rank };
constexpr size_t kManagedTagCount = 6;
constexpr size_t kTagsOfATask = 4;

// Writes the tags that the environment's variables give, as key=value,... with encoded values; nothing where there are
// none. `out` needs kMaxTagsBytes; longer ones are left out.
struct FoundTags {
  uint32_t world_size;  // how many ranks there are, by the manager that gives the rank; 0: it does not say
  int64_t bytes_read;   // of a job's ClassAd
};
FoundTags find_managed_tags(char *const *environment, Writer &out);

// Whether a worker of a manager is in another task once it has changed this variable.
bool is_workers_variable(string_view name);

// Working memory, too large for the stack of a thread.
struct TagsOfProcess {
  TagSet own, old, now, both;
  char all[kMaxTagsBytes + 1], managed[kMaxTagsBytes + 1];
};

// The tags of a process, canonical, from
//   given       what it was started with (TAILRACE_TAGS)
//   inherited   those of them that its parent had from a manager's variables (TAILRACE_MANAGED_TAGS)
//   found       what its own environment's variables give now
// The user's and an adapter's tags win; then what was found; then what was inherited, but a task that was found takes
// no stage, workflow or try of another one's. `managed` are those of them that are neither the user's nor an adapter's.
// What breaks the rules counts as empty; where all tags together are too many, `given` stay.
struct ProcessTags {
  string_view all, managed;  // in `work`
};
ProcessTags tags_of_process(string_view given, string_view inherited, string_view found, TagsOfProcess &work);

}  // namespace tailrace
