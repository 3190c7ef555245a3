// Regions: what the program itself says that it is doing. A region is an event (category APP) from its begin to its
// end; meanwhile the thread's context has its path as the tag `region`, so that every record below carries it.
//
//   begin_region   own context from the outer one's list (no lock), slot with t0 and t1 = 0     ──► an open region
//   end_region     t1 into that slot; the outer context again
//                  the slot was sealed meanwhile, as an open region: a second record, with the same number, has the end
//
// The path is a tag of the context, which a slot has anyway. Numbers and steps are on the region's own line: each step
// would be a context, and contexts are never freed. Rejected: two records a region, which cost twice as much; a list of
// open regions in the segment's header, which has no room.
//
// Invariants:
// - The slot is complete when begin_region returns: a process that is killed leaves its open regions.
// - A slot is amended only by the process and thread that wrote it, and only in the epoch in which it was written.
// - Contexts are bounded: past kMostRegionContexts, or kMaxTagValueBytes of path, a region has its outer one's context.
// - Neither changes errno.
#pragma once

#include "session/session.h"

namespace tailrace {

constexpr size_t kMostRegionNameBytes = 256;
constexpr uint32_t kMostRegionContexts = 1U << 16, kMostRegionDefinitions = 1U << 16;

// A name with a category: what a line says of a region besides its times and keys. Never freed.
struct RegionDefinition {
  uint64_t hash;  // of its name record; never 0
  uint32_t bytes;
  RegionDefinition *next;
  char text[1];  // name, a zero, category

  string_view both() const { return {text, bytes}; }
};

struct RegionInContext {
  const RegionDefinition *definition;
  Context *context;
  RegionInContext *next;
};

// Interned. What is no UTF-8 or a control character becomes '?', the rest of a long text is cut. Null without memory.
const RegionDefinition *define_region(string_view name, string_view category);

constexpr int64_t kNoKey = INT64_MIN;

// What a region has besides its name: `keys` is a tag string, or null.
struct RegionKeys {
  int64_t epoch = kNoKey;
  int64_t step = kNoKey;
  const char *keys = nullptr;
};

// A region between its begin and its end, in the program's memory.
struct Region {
  uint64_t id;  // 0: not recorded
  uint64_t outer_id;
  Context *own, *outer;  // outer: null is the process's own
  const RegionDefinition *definition;
  Slot *slot;  // null: there was no room
  SegmentHeader *segment;
  uint32_t epoch;
  int pid;
  uint64_t t0;
  int64_t keys[2];  // epoch, step
};

void begin_region(Region &region, const RegionDefinition *definition, const RegionKeys &keys);
// keys: all of them, where `changed` or the region had some from its begin.
void end_region(Region &region, const RegionKeys &keys, bool changed);

// What a thread has recorded by now, but for regions that were dropped.
struct RecordMark {
  const Slot *next;
  uint32_t epoch, dropped;
};
inline RecordMark mark_records(const Thread *t) { return {t->next, t->epoch, t->dropped_regions}; }
inline bool is_unchanged(const Thread *t, const RecordMark &mark) {
  return t->epoch == mark.epoch && t->next - mark.next == static_cast<int32_t>(t->dropped_regions - mark.dropped);
}

// Ends a region as if it had not been. False where its event is sealed already: it must be ended.
bool drop_region(Region &region);

// The thread goes on in the region, or where it was when that was held, or in none of this process. For coroutines,
// which change places on a thread.
void switch_region(const Region *region);
void hold_region(Region &state);

// tailrace_region_functions of tailrace/region.h, which the library can't include: it looks for this library.
struct RegionFunctions {
  size_t bytes;
  const void *(*define)(const char *name, const char *category);
  void (*begin)(Region *region, const void *definition, int64_t epoch, int64_t step, const char *keys);
  void (*end)(Region *region, int64_t epoch, int64_t step, const char *keys, int changed);
  void (*instant)(const void *definition, int64_t epoch, int64_t step, const char *keys);
  void (*counter)(const void *definition, double value);
  void (*switch_to)(const Region *region);
  void (*hold)(Region *state);
  uint64_t (*current)();
};
static_assert(sizeof(Region) <= 96, "tailrace_region of tailrace/region.h");

// A moment, and a number that has a value from a moment on.
void record_instant(const RegionDefinition *definition, const RegionKeys &keys);
void record_counter(const RegionDefinition *definition, double value);

}  // namespace tailrace
