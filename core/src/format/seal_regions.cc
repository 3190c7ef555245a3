// The lines of what an application says that it does: regions, instants, metadata and counters.
#include "format/sealer.h"
#include "format/tags.h"

namespace tailrace {

static char *put_counter(char *p, int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return put_real(put(p, ",\"value\":"), value);
}

char *Sealer::put_region_keys(char *p, const Slot &slot) {
  const uint32_t at = keys_slot_;
  keys_slot_ = UINT32_MAX;
  if (at == UINT32_MAX || reinterpret_cast<HeadSlot *>(segment_.slot(at))->hash != slot.file2) return p;
  TagSet keys;
  size_t fault_at;
  char message[256];
  Writer ignored(message, sizeof message);
  const string_view text = text_of(at);
  if (!parse_tags(text, keys, fault_at, ignored) || keys.count == 0) return p;
  return put(put(put(p, ",\"keys\":\""), text), "\"");
}

// What lines of a definition under a context have in common. Null: it is too long to be kept, or the definition is
// lost.
const WrittenRegion *Sealer::written_region(const Slot &slot, uint32_t mark) {
  WrittenRegion &kept = s_.regions[(slot.file ^ slot.context) % kWrittenRegions];
  if (kept.generation == s_.generation && kept.definition == slot.file && kept.context == slot.context &&
      kept.mark == mark) {
    return &kept;
  }
  kept.generation = 0;
  use_context(slot.context);
  NameEntry *definition = find_name(slot.file);
  if (!definition->hash) {
    lose(Loss::kUnnamed, 1);
    return nullptr;
  }
  const string_view both = text_of(definition->slot);
  const size_t end = both.find('\0') == string_view::npos ? both.size() : both.find('\0');
  Writer opening(kept.opening, sizeof kept.opening), tail(kept.tail, sizeof kept.tail);
  opening << "{\"name\":";
  opening.json(slice(both, 0, end)) << ",\"cat\":\"APP\",\"ph\":\"X\",\"pid\":";
  const auto fn = static_cast<Fn>(mark_kind(mark));
  if (fn != Fn::kRegion) tail << ",\"kind\":\"" << function(fn).name.view() << '"';
  if (end + 1 < both.size()) (tail << ",\"category\":").json(slice(both, end + 1, both.size() - end - 1));
  kept.opening_bytes = opening.size();
  kept.tail_bytes = tail.size();
  kept.definition_slot = definition->slot;
  kept.context_slot = context_slot_;
  tail << string_view(s_.context_json, context_bytes_);
  kept.whole = !opening.overflowed() && !tail.overflowed();
  kept.all_bytes = tail.size();
  if (!kept.whole) return &kept;
  kept.definition = slot.file;
  kept.context = slot.context;
  kept.mark = mark;
  kept.generation = s_.generation;
  return &kept;
}

void Sealer::add_region(const Slot &slot, const Function &f) {
  const uint32_t mark = slot.mark.load(std::memory_order_relaxed);
  const WrittenRegion *kept = written_region(slot, mark);
  if (!kept) return;
  const uint64_t end = slot.t1, t0 = clock_.to_ns_before(slot.t0) + epoch_shift_ns_;
  uint64_t t1 = end ? clock_.to_ns_before(end) + epoch_shift_ns_ : t0;
  if (t1 < t0) t1 = t0;
  EventLine line;
  line.kind = {static_cast<uint32_t>(kFunctionCount) + kept->definition_slot * 4 + (mark_kind(mark) & 3),
               kept->context_slot, tid_};
  line.opening = {kept->opening, kept->opening_bytes};
  line.thread = {thread_, thread_bytes_};
  line.tail = {kept->tail, kept->all_bytes};
  LineFields &fields = line.fields;
  add_times(fields, t0, t1 - t0);
  fields.add(LineField::kRegion, static_cast<int64_t>(slot.file2));
  if (slot.ret) fields.add(LineField::kOuterRegion, slot.ret);
  const bool counter = static_cast<Fn>(mark_kind(mark)) == Fn::kCounter;
  const auto step = static_cast<int64_t>(slot.count);
  if (!counter && slot.offset != INT64_MIN) fields.add(LineField::kEpoch, slot.offset);
  if (!counter && step != INT64_MIN) fields.add(LineField::kStep, step);
  if (kept->whole && end && !counter && keys_slot_ == UINT32_MAX) {
    s_.lines.add_event(line);
  } else {
    use_context(slot.context);
    char *p = put_fields(put(put(s_.lines.line(), line.opening), line.thread), fields);
    p = put(p, string_view(kept->tail, kept->tail_bytes));
    if (counter) p = put_counter(p, slot.offset);
    // Its end is another event, with the same number.
    if (!end) p = put(p, ",\"open\":1,\"calls\":0");
    p = put_region_keys(p, slot);
    s_.lines.add_text(put(p, string_view(s_.context_json, context_bytes_)));
  }
  summary_.add_event(f, t0, t1, 0);
}

}  // namespace tailrace
