// See session/region.h.
#include "session/region.h"

#include <new>

#include "base/arena.h"
#include "session/record.h"

namespace tailrace {
namespace {

constexpr size_t kBuckets = 256;
std::atomic<RegionDefinition *> g_definitions[kBuckets];  // found without a lock
uint32_t g_definition_count = 0, g_context_count = 0;

// Under the table lock; too large for the stack of a thread.
struct Work {
  TagSet base, over;
  char path[kMaxTagsBytes], merged[kMaxTagsBytes + 1];
};
// Not constructed when the library is loaded, which every program waits for.
alignas(Work) char g_work[sizeof(Work)];

void write_clean(string_view text, Writer &out) {
  for (size_t i = 0; i < text.size();) {
    unsigned n = utf8_sequence(text, i);
    if (out.size() + (n ? n : 1) > kMostRegionNameBytes) return;
    const auto c = static_cast<unsigned char>(text[i]);
    out << (n == 0 || c < 0x20 || c == 0x7F ? string_view("?") : slice(text, i, n));
    i += n ? n : 1;
  }
}

// The tags of the outer context with the name behind its path. Empty where there is no room for it.
string_view tags_below(const Context *outer, const RegionDefinition *definition) {
  Work &work = *new (g_work) Work;
  char words[256];
  Writer faults(words, sizeof words), path(work.path, sizeof work.path), merged(work.merged, sizeof work.merged);
  size_t at;
  if (!parse_tags(outer->tags(), work.base, at, faults, TagsOf::kCore)) return {};
  const Tag *above = work.base.find(kRegionTag);
  path << kRegionTag << '=';
  if (above) path << above->value << '/';
  const string_view both = definition->both();
  quote_tag_text(slice(both, 0, both.find('\0')), path);
  if (path.overflowed() || !parse_tags(path.view(), work.over, at, faults, TagsOf::kCore)) return {};
  return merge_tags(work.base, work.over, merged) ? merged.view() : string_view();
}

Context *find_region_context(const Context *outer, const RegionDefinition *definition) {
  for (RegionInContext *r = outer->regions.load(std::memory_order_acquire); r; r = r->next) {
    if (r->definition == definition) return r->context;
  }
  return nullptr;
}

__attribute__((noinline)) Context *make_region_context(Context *outer, const RegionDefinition *definition) {
  Locked lock(g_wiped.table);
  if (Context *found = find_region_context(outer, definition)) return found;
  Context *made = nullptr;
  if (g_context_count < kMostRegionContexts) {
    const string_view tags = tags_below(outer, definition);
    if (!tags.empty()) made = intern_context(tags, outer->base);
  }
  // A region that calls itself has one path.
  void *memory[2] = {arena_allocate(sizeof(RegionInContext)), nullptr};
  if (!memory[0]) return made ? made : outer;
  Context *context = made ? made : outer;
  auto *link = new (memory[0]) RegionInContext{definition, context, outer->regions.load(std::memory_order_relaxed)};
  outer->regions.store(link, std::memory_order_release);
  if (made) ++g_context_count;
  if (made && !find_region_context(made, definition)) {
    memory[1] = arena_allocate(sizeof(RegionInContext));
    if (memory[1]) {
      auto *self = new (memory[1]) RegionInContext{definition, made, made->regions.load(std::memory_order_relaxed)};
      made->regions.store(self, std::memory_order_release);
    }
  }
  return context;
}

inline Context *region_context(Context *outer, const RegionDefinition *definition) {
  Context *found = find_region_context(outer, definition);
  return __builtin_expect(found != nullptr, 1) ? found : make_region_context(outer, definition);
}

inline uint64_t next_id(Thread *t) {
  constexpr uint32_t kCounter = 0x7FFFFFFF;
  // Begins anywhere: after execve the process's numbers go on in a new memory.
  if (__builtin_expect(t->regions == 0, 0)) t->regions = static_cast<uint32_t>(now_ticks() >> 4) & kCounter;
  t->regions = (t->regions + 1) & kCounter;
  return static_cast<uint64_t>(t->tid & 0x3FFFFF) << 31 | t->regions;
}

inline RegionRecord record_of(const Region &r, const char *keys) {
  return {Fn::kRegion, r.definition, r.own, r.id, r.outer_id, r.keys[0], r.keys[1], keys};
}

// Its slot may be amended.
bool is_unsealed(const Thread *t, const Region &region) {
  return t->segment == region.segment && t->epoch == region.epoch &&
         region.slot - t->begin >= static_cast<int64_t>(region.segment->first_slot.load());
}

void record_moment(Fn fn, const RegionDefinition *definition, const RegionKeys &keys) {
  Thread *t = definition ? enter() : nullptr;
  if (!t) return;
  const uint64_t now = now_ticks();
  record_region(t, {fn, definition, current_context(), next_id(t), t_region, keys.epoch, keys.step, keys.keys}, now,
                now);
}

const RegionDefinition *find_definition(const RegionDefinition *first, string_view both) {
  while (first && first->both() != both) first = first->next;
  return first;
}

}  // namespace

const RegionDefinition *define_region(string_view name, string_view category) {
  if (!enter()) return nullptr;
  char text[2 * kMostRegionNameBytes + 2];
  Writer first(text, kMostRegionNameBytes + 1);
  write_clean(name.empty() ? string_view("region") : name, first);
  text[first.size()] = '\0';
  Writer second(text + first.size() + 1, kMostRegionNameBytes + 1);
  write_clean(category, second);
  const string_view both(text, first.size() + 1 + second.size());
  FileIdentity none;
  none.type = FileType::kObject;
  const uint64_t hash = recorded_hash(both, none);
  std::atomic<RegionDefinition *> &bucket = g_definitions[hash % kBuckets];
  if (const RegionDefinition *known = find_definition(bucket.load(std::memory_order_acquire), both)) return known;
  Locked lock(g_wiped.table);
  RegionDefinition *others = bucket.load(std::memory_order_relaxed);
  if (const RegionDefinition *known = find_definition(others, both)) return known;
  if (g_definition_count >= kMostRegionDefinitions) return nullptr;
  void *memory = arena_allocate(sizeof(RegionDefinition) + both.size());
  if (!memory) return nullptr;
  auto *d = new (memory) RegionDefinition{hash, static_cast<uint32_t>(both.size()), others, {0}};
  memcpy(d->text, both.data(), both.size());
  bucket.store(d, std::memory_order_release);
  ++g_definition_count;
  return d;
}

void begin_region(Region &region, const RegionDefinition *definition, const RegionKeys &keys) {
  region.id = 0;
  region.pid = 0;
  Thread *t = definition ? enter() : nullptr;
  if (!t) return;
  region.outer = t_context;
  region.outer_id = t_region;
  region.own = region_context(current_context(), definition);
  region.definition = definition;
  region.id = next_id(t);
  region.pid = g_session.pid;
  region.keys[0] = keys.epoch;
  region.keys[1] = keys.step;
  region.t0 = now_ticks();
  region.slot = record_region(t, record_of(region, keys.keys), region.t0, 0);
  region.segment = t->segment;
  region.epoch = t->epoch;
  t_context = region.own;
  t_region = region.id;
}

bool drop_region(Region &region) {
  Thread *t = enter();
  if (!t || !region.id || !region.slot || region.pid != g_session.pid || !is_unsealed(t, region)) return false;
  t_context = region.outer;
  t_region = region.outer_id;
  region.slot->mark.store(make_mark(kEmptyRecord, static_cast<uint16_t>(t->epoch)), std::memory_order_release);
  ++t->dropped_regions;
  return true;
}

void end_region(Region &region, const RegionKeys &keys, bool changed) {
  if (!region.id) return;
  Thread *t = enter();
  if (!t) return;
  const uint64_t t1 = now_ticks();
  t_context = region.outer;
  t_region = region.outer_id;
  // A forked child only leaves its parent's region.
  if (__builtin_expect(region.pid != g_session.pid || !region.slot, 0)) return;
  const bool unsealed = is_unsealed(t, region);
  if (__builtin_expect(unsealed && !changed, 1)) {
    region.slot->t1 = t1;
    pass_on_when_due(t, t1);
    return;
  }
  if (keys.epoch != kNoKey) region.keys[0] = keys.epoch;
  if (keys.step != kNoKey) region.keys[1] = keys.step;
  // The open one goes after the closed one is there, and only where that did not seal it.
  if (!record_region(t, record_of(region, keys.keys), region.t0, t1)) return;
  if (unsealed && t->segment == region.segment && t->epoch == region.epoch) {
    region.slot->mark.store(make_mark(kEmptyRecord, static_cast<uint16_t>(t->epoch)), std::memory_order_release);
  }
}

void switch_region(const Region *region) {
  if (!enter()) return;
  if (region && region->pid == g_session.pid) {
    t_context = region->own;
    t_region = region->id;
  } else if (t_context) {
    t_context = t_context->base;
    t_region = 0;
  }
}

void hold_region(Region &state) {
  state.id = t_region;
  state.own = t_context;
  state.pid = enter() ? g_session.pid : 0;
}

void record_instant(const RegionDefinition *definition, const RegionKeys &keys) {
  record_moment(Fn::kInstant, definition, keys);
}

void record_counter(const RegionDefinition *definition, double value) {
  RegionKeys keys;
  memcpy(&keys.epoch, &value, sizeof value);
  record_moment(Fn::kCounter, definition, keys);
}

}  // namespace tailrace
