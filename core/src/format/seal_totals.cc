// Lines of totals: groups of records of one file, and their lines in place of the records' own.
#include "format/sealer.h"

namespace tailrace {

// What lines of totals take at most: the line of their file, in which a byte of the path is escaped, and again in hex
// where it is no UTF-8; a record's own line, while it may get one, with the context; a number of ranges and histograms
// for each record, pieces for as many as there can be.
constexpr size_t kFileLineBytes = 320, kPathByteBytes = 8;
constexpr size_t kOwnLineBytes = 640, kRangeBytes = 48, kBucketBytes = 32, kPieceBytes = 256;

bool Sealer::is_summed(uint64_t file) {
  const NameEntry *name = file ? find_name(file) : nullptr;
  return name && name->hash && reinterpret_cast<HeadSlot *>(segment_.slot(name->slot))->is_summed;
}

// False: the record's file has no name, which its own line reports.
bool Sealer::add_to_group(uint32_t index, const Slot &slot, Fn fn, const Function &f) {
  const uint64_t calls = calls_of(slot, f);
  TotalsGroup &group = s_.groups.find(slot.file, f.direction);
  if (TotalsTable::ends_before(group, slot, fn, calls)) put_group(group);
  if (!group.count) {
    NameEntry *name = find_name(slot.file);
    if (!name->hash) return false;
    // Its line is written right before the group's, whose hashes are repeated from it (put_group).
    const auto *head = reinterpret_cast<HeadSlot *>(segment_.slot(name->slot));
    if (name->emitted_in != s_.block_number) group_bytes_ += kFileLineBytes + kPathByteBytes * head->text_bytes;
  }
  uint32_t functions = group.count ? group.function_count : 0;
  s_.groups.add(group, index, slot, fn, calls);
  if (group.function_count > functions || group.count <= kMostFullLines) {
    use_context(slot.context);
    group_bytes_ += kOwnLineBytes + context_bytes_;
  }
  group_bytes_ += kRangeBytes + (group.count <= 64 ? kBucketBytes : 0) + (group.count <= kPieces ? kPieceBytes : 0);
  return true;
}

void Sealer::put_group(TotalsGroup &group) {
  if (group.count > kMostFullLines) {
    auto to_ns = [this](uint64_t ticks) { return clock_.to_ns(ticks) + epoch_shift_ns_; };
    // A tick less than 10 us take, since times are rounded. A damaged journal has any rate.
    uint64_t pause_ticks = clock_.rate_q32 ? (kPauseNs << 32) / clock_.rate_q32 : 0;
    NameEntry *name = find_name(group.file);
    const auto *head = name->hash ? reinterpret_cast<HeadSlot *>(segment_.slot(name->slot)) : nullptr;
    const auto block_bytes = static_cast<uint32_t>(head ? head->block_bytes : 0);
    s_.fold.fold(segment_, s_.groups, group, to_ns, pause_ticks ? pause_ticks - 1 : 0, block_bytes);
    use_context(group.context);
    if (name->hash && name->emitted_in != s_.block_number) add_file_line(*name);
    for (uint32_t i = 0; i < s_.fold.function_count(); ++i) put_totals(group, i);
  } else {
    uint32_t index = group.head;
    for (uint32_t i = 0; i < group.count; ++i, index = s_.groups.next(index)) add_event(index);
  }
  group.count = 0;
}

void Sealer::put_totals(const TotalsGroup &group, uint32_t i) {
  const FunctionTotals &sums = s_.fold.function_at(i);
  const Function &f = *sums.f;
  char *p = put(put(s_.lines.line(), f.opening), string_view(thread_, thread_bytes_));
  LineFields fields;
  add_times(fields, sums.first_ns, sums.time_ns);
  fields.add(LineField::kFile, static_cast<int64_t>(group.file));
  p = s_.fold.put_args(put_fields(p, fields), i);
  s_.lines.add_text(put(p, string_view(s_.context_json, context_bytes_)));
  summary_.add_event(f, sums.first_ns, sums.end_ns, static_cast<int64_t>(sums.size));
  summary_.add_totals(sums.lines);
}

void Sealer::put_groups() {
  for (uint32_t i = 0; i < s_.groups.size(); ++i) {
    if (s_.groups.at(i).count) put_group(s_.groups.at(i));
  }
  group_bytes_ = 0;
}

// A line on a file comes behind those of the calls on it before, and what it begins is told from them.
void Sealer::put_groups_of(const Slot &slot, const Function &f) {
  for (uint64_t file : {slot.file, second_file(slot, f)}) {
    if (!file) continue;
    TotalsGroup *groups[4];
    s_.groups.find_all(file, groups);
    for (TotalsGroup **group = groups; *group; ++group) put_group(**group);
  }
}

}  // namespace tailrace
