// See session/context.h.
#include "session/context.h"

#include <new>

#include "base/arena.h"

namespace tailrace {
namespace {

constexpr uint32_t kBuckets = 256;
// By tags, for interning, those that have not ended; all by id, for handles.
Context *g_newest[kBuckets];
Context **g_by_id[1024];  // pages of 1024 pointers
uint32_t g_count = 0;
const NameHasher *g_hasher = nullptr;
char g_given[kMaxTagsBytes], g_hashed[kMaxTagsBytes];  // under the table lock

// Empty without memory: no tags rather than plain ones.
string_view kept(string_view tags) {
  auto *text = static_cast<char *>(arena_allocate(tags.size() + 1));
  if (!text) return {};
  put(text, tags);
  return {text, tags.size()};
}

// The tags as the run has them.
string_view recorded_form(string_view tags) {
  const bool has_empty = has_empty_tags(tags);
  Writer given(g_given, sizeof g_given), hashed(g_hashed, sizeof g_hashed);
  if (has_empty) {
    write_without_empty_tags(tags, given);
    tags = given.view();
  }
  if (g_hasher) {
    g_hasher->write_tags(hashed, tags);
    tags = hashed.view();
  }
  return has_empty || g_hasher ? kept(tags) : tags;
}

}  // namespace

void hash_recorded_tags(const NameHasher *hasher) { g_hasher = hasher; }

Context *find_context(uint32_t id) {
  if (id == 0 || id > g_count) return nullptr;
  return g_by_id[id >> 10][id & 1023];
}

Context *intern_context(string_view tags, Context *base) {
  Context *&bucket = g_newest[fnv32(tags) % kBuckets];
  // Without those that have ended: a worker runs a million tasks.
  for (Context **at = &bucket; Context *c = *at;) {
    if (c->finished.load(std::memory_order_relaxed)) {
      *at = c->next;
    } else if (c->tags() == tags) {
      return c;
    } else {
      at = &c->next;
    }
  }
  uint32_t id = g_count + 1;
  if (id >= 1024u * 1024u) return nullptr;
  Context **&page = g_by_id[id >> 10];
  if (!page) page = static_cast<Context **>(arena_allocate(1024 * sizeof(Context *)));
  void *memory = arena_allocate(sizeof(Context) + tags.size());
  if (!page || !memory) return nullptr;
  auto *c = new (memory) Context{id, {0}, {0}, static_cast<uint32_t>(tags.size()), bucket, base, {nullptr}, {}, {0}};
  if (!base) c->base = c;
  memcpy(c->text, tags.data(), tags.size());
  c->recorded = recorded_form(c->tags());
  page[id & 1023] = c;
  bucket = c;
  g_count = id;
  return c;
}

void finish_context(Context *context) {
  context->finished.store(1, std::memory_order_relaxed);
  // A region's is made after its base.
  for (uint32_t id = context->id + 1; id <= g_count; ++id) {
    Context *c = find_context(id);
    if (c->base == context) c->finished.store(1, std::memory_order_relaxed);
  }
}

}  // namespace tailrace
