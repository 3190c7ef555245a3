// See session/root_context.h.
#include "session/root_context.h"

#include <unistd.h>

#include <new>

#include "base/arena.h"
#include "format/managers.h"
#include "session/context.h"
#include "session/ledger.h"
#include "session/session.h"

namespace tailrace {
namespace {

const ManagedTags *keep(string_view found, string_view used) {
  void *memory = arena_allocate(sizeof(ManagedTags) + found.size() + used.size());
  if (!memory) return nullptr;
  auto *text = reinterpret_cast<char *>(static_cast<ManagedTags *>(memory) + 1);
  char *behind = put(text, found);
  put(behind, used);
  return new (memory) ManagedTags{{text, found.size()}, {behind, used.size()}};
}

// Under the table lock, or before any thread runs; too large for the stack of a thread. Not constructed when the
// library is loaded, which every program waits for.
alignas(TagsOfProcess) char g_tags[sizeof(TagsOfProcess)];
char g_found[kMaxTagsBytes];

}  // namespace

bool make_root_context(string_view found) {
  Session &g = g_session;
  const ProcessTags tags =
      tags_of_process(g.environment[Setting::TAILRACE_TAGS], g.environment[Setting::TAILRACE_MANAGED_TAGS], found,
                      *new (g_tags) TagsOfProcess);
  Context *root = intern_context(tags.all);
  const ManagedTags *managed = root ? keep(found, tags.managed) : nullptr;
  if (managed) {
    g.managed.store(managed, std::memory_order_release);
    Context *before = g.root.exchange(root, std::memory_order_acq_rel);
    // A thread that returns from a scope to the context of the task before is in that of the present one.
    if (before && before != root) before->finished.store(1, std::memory_order_relaxed);
  }
  return g.root.load(std::memory_order_relaxed) != nullptr;
}

void renew_root_context() {
  // Looked for under the lock, so that of two threads that have changed a variable the last finds what both have set.
  Locked lock(g_wiped.table);
  Writer found(g_found, sizeof g_found);
  const FoundTags known = find_managed_tags(environ, found);
  count_own(known.bytes_read, 0);
  if (found.view() != g_session.managed.load()->found) make_root_context(found.view());
}

}  // namespace tailrace
