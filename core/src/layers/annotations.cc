// See layers/annotations.h.
#include "layers/annotations.h"

#include <stdlib.h>

#include <new>

#include "base/arena.h"
#include "format/choices.h"
#include "linker/lookup.h"
#include "session/record.h"

namespace tailrace {
namespace {

struct Range {
  Region region;
  const void *of;
  uint64_t number;
  Range *next;  // of the thread: the one below; of the process: in its bucket
};

__thread Range *t_ranges;

constexpr size_t kBuckets = 64;
Range *g_started[kBuckets];
uint64_t g_last_number;

Range *&bucket_of(const void *of, uint64_t number) {
  return g_started[(number ^ reinterpret_cast<uintptr_t>(of) >> 4) % kBuckets];
}

void give_to_pool(Range *range) {
  Locked lock(g_wiped.table);
  pool_give(range, sizeof *range);
}

// One that has ended in the thread. The list is empty while one is taken off it: a signal handler may take and give,
// too.
Range *take_spare(Thread *t) {
  auto *spare = static_cast<Range *>(__atomic_exchange_n(&t->spare_ranges, nullptr, __ATOMIC_RELAXED));
  if (!spare || !spare->next) return spare;
  auto *given = static_cast<Range *>(__atomic_exchange_n(&t->spare_ranges, spare->next, __ATOMIC_RELAXED));
  while (Range *range = given) {
    given = range->next;
    give_to_pool(range);
  }
  return spare;
}

Range *new_range(const void *of, void *memory = nullptr) {
  if (!memory) {
    Locked lock(g_wiped.table);
    memory = pool_take(sizeof(Range));
  }
  return memory ? new (memory) Range{{}, of, 0, nullptr} : nullptr;
}

void give_spare(Thread *t, Range *range) {
  void *next = __atomic_load_n(&t->spare_ranges, __ATOMIC_RELAXED);
  do {
    range->next = static_cast<Range *>(next);
  } while (!__atomic_compare_exchange_n(&t->spare_ranges, &next, range, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

// The thread stays where it is, unless that is the region.
void end_anywhere(Region &region) {
  const bool is_innermost = t_region == region.id;
  Region here = {};
  hold_region(here);
  end_region(region, {}, false);
  if (!is_innermost) switch_region(&here);
}

}  // namespace

void find_annotations() {
  uint32_t chosen;
  parse_annotations(g_session.environment[Setting::TAILRACE_ANNOTATIONS], chosen);
  if (!chosen || !enter()) return;
  const char *own = library_path();
  if (!own) return;
  for (size_t i = 0; i < kAnnotationCount; ++i) {
    if (chosen & 1U << i) setenv(kAnnotationVariables[i], own, 0);
  }
}

AnnotationText::AnnotationText(const wchar_t *text) {
  size_t n = 0;
  for (; text && *text && n + 4 <= sizeof wide_; ++text) {
    const auto c = static_cast<uint32_t>(*text);
    if (c < 0x80) {
      wide_[n++] = static_cast<char>(c);
      continue;
    }
    // What is no character becomes bytes that define_region() replaces.
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    wide_[n++] = static_cast<char>(kFirst[more] | (c >> 6 * more & (0x3F >> more)));
    for (int i = more - 1; i >= 0; --i) wide_[n++] = static_cast<char>(0x80 | (c >> 6 * i & 0x3F));
  }
  view_ = {wide_, n};
}

void *kept_memory(size_t bytes) { return calloc(1, bytes); }

string_view kept_text(string_view text) {
  auto *copy = static_cast<char *>(kept_memory(text.size() + 1));
  if (!copy) return {};
  memcpy(copy, text.data(), text.size());
  return {copy, text.size()};
}

int push_range(const void *of, const RegionDefinition *definition, const RegionKeys &keys) {
  Thread *t = definition ? enter() : nullptr;
  Range *range = t ? new_range(of, take_spare(t)) : nullptr;
  if (!range) return -1;
  int level = 0;
  for (const Range *r = t_ranges; r; r = r->next) level += r->of == of;
  begin_region(range->region, definition, keys);
  range->next = t_ranges;
  t_ranges = range;
  return level;
}

int pop_range(const void *of) {
  Thread *t = enter();
  if (!t) return -1;
  Range *above = nullptr, *range = t_ranges;
  for (; range && range->of != of; range = range->next) above = range;
  if (!range) return -1;
  (above ? above->next : t_ranges) = range->next;
  // Another domain's, begun inside of it and still there, ends into what this one was begun in.
  if (above && above->region.outer_id == range->region.id) {
    above->region.outer = range->region.outer;
    above->region.outer_id = range->region.outer_id;
  }
  end_anywhere(range->region);
  give_spare(t, range);
  int level = 0;
  for (const Range *r = t_ranges; r; r = r->next) level += r->of == of;
  return level;
}

uint64_t start_range(const void *of, uint64_t number, const RegionDefinition *definition, const RegionKeys &keys) {
  Range *range = enter() && definition ? new_range(of) : nullptr;
  if (!range) return 0;
  Region here = {};
  hold_region(here);
  begin_region(range->region, definition, keys);
  switch_region(&here);
  Locked lock(g_wiped.table);
  range->number = number ? number : ++g_last_number;
  Range *&bucket = bucket_of(of, range->number);
  range->next = bucket;
  bucket = range;
  return range->number;
}

void end_range(const void *of, uint64_t number) {
  if (!enter()) return;
  Range *range;
  {
    Locked lock(g_wiped.table);
    Range **at = &bucket_of(of, number);
    while (*at && ((*at)->of != of || (*at)->number != number)) at = &(*at)->next;
    range = *at;
    if (!range) return;
    *at = range->next;
  }
  end_anywhere(range->region);
  give_to_pool(range);
}

}  // namespace tailrace
