// See format/totals.h.
#include "format/totals.h"

#include "format/event_args.h"

namespace tailrace {

bool can_be_summed(const Slot &slot, const Function &f) {
  return f.summed && slot.file && slot.ret >= 0 && !second_file(slot, f);
}

// ---- groups ----

uint32_t TotalsTable::place_of(uint64_t file, Direction direction) const {
  for (uint64_t i = file + static_cast<uint64_t>(direction) * 0x9E3779B97F4A7C15ULL;; ++i) {
    uint32_t place = static_cast<uint32_t>(i % kSlots);
    if (!index_[place]) return place;
    const TotalsGroup &group = groups_[index_[place] - 1];
    if (group.file == file && group.direction == static_cast<uint8_t>(direction)) return place;
  }
}

TotalsGroup &TotalsTable::find(uint64_t file, Direction direction) {
  // Mostly the file is that of the record before.
  if (last_ < size_ && groups_[last_].file == file && groups_[last_].direction == static_cast<uint8_t>(direction)) {
    return groups_[last_];
  }
  uint32_t place = place_of(file, direction);
  if (!index_[place]) {
    index_[place] = static_cast<uint16_t>(++size_);
    TotalsGroup &made = groups_[size_ - 1];
    made.file = file;
    made.direction = static_cast<uint8_t>(direction);
    made.count = 0;
  }
  last_ = index_[place] - 1U;
  return groups_[last_];
}

void TotalsTable::find_all(uint64_t file, TotalsGroup *(&out)[4]) {
  size_t found = 0;
  for (Direction direction : {Direction::N, Direction::R, Direction::W}) {
    uint32_t place = place_of(file, direction);
    if (index_[place] && groups_[index_[place] - 1].count) out[found++] = &groups_[index_[place] - 1];
  }
  out[found] = nullptr;
}

static bool has_function(const TotalsGroup &group, Fn fn) {
  for (uint32_t i = 0; i < group.function_count; ++i) {
    if (group.functions[i] == fn) return true;
  }
  return false;
}

bool TotalsTable::ends_before(const TotalsGroup &group, const Slot &slot, Fn fn, uint64_t calls) {
  if (!group.count) return false;
  // A signal handler's call is recorded before the one that it interrupted.
  if (group.context != slot.context || slot.t0 < group.last_ticks) return true;
  if (group.calls + calls > kMostCalls) return true;
  return group.function_count == kGroupFunctions && !has_function(group, fn);
}

void TotalsTable::add(TotalsGroup &group, uint32_t index, const Slot &slot, Fn fn, uint64_t calls) {
  if (!group.count) {
    group.context = slot.context;
    group.head = static_cast<uint16_t>(index);
    group.calls = 0;
    group.function_count = 0;
  } else {
    next_[group.tail] = static_cast<uint16_t>(index);
  }
  if (!has_function(group, fn)) group.functions[group.function_count++] = fn;
  group.tail = static_cast<uint16_t>(index);
  group.last_ticks = slot.t0;
  group.calls += calls;
  ++group.count;
}

void TotalsTable::clear() {
  for (uint32_t i = 0; i < size_; ++i) {
    const TotalsGroup &group = groups_[i];
    uint64_t k = group.file + static_cast<uint64_t>(group.direction) * 0x9E3779B97F4A7C15ULL;
    for (; index_[k % kSlots]; ++k) index_[k % kSlots] = 0;
  }
  size_ = last_ = 0;
}

// ---- a group's sums ----

void TotalsFold::begin(const TotalsGroup &group, uint32_t block_bytes) {
  block_bytes_ = block_bytes;
  direction_ = static_cast<Direction>(group.direction);
  ended_at_ = -1;
  function_count_ = group.function_count;
  current_ = pause_count_ = piece_count_ = range_count_ = 0;
  shortest_ = end_ns_ = 0;
  memset(functions_, 0, group.function_count * sizeof functions_[0]);
  for (uint32_t i = 0; i < group.function_count; ++i) {
    functions_[i].fn = group.functions[i];
    functions_[i].f = &function(group.functions[i]);
  }
}

// Of equal pauses the first ones are kept, as the edge table does.
void TotalsFold::add_pause(uint64_t ns, uint32_t place) {
  if (pause_count_ < kPieces - 1) {
    pauses_[pause_count_++] = {ns, place};
    if (pause_count_ < kPieces - 1) return;
  } else {
    if (ns <= shortest_) return;
    uint32_t least = 0;
    for (uint32_t i = 1; i < pause_count_; ++i) {
      if (pauses_[i].ns < pauses_[least].ns ||
          (pauses_[i].ns == pauses_[least].ns && pauses_[i].place > pauses_[least].place)) {
        least = i;
      }
    }
    pauses_[least] = {ns, place};
  }
  shortest_ = UINT64_MAX;
  for (uint32_t i = 0; i < pause_count_; ++i) shortest_ = pauses_[i].ns < shortest_ ? pauses_[i].ns : shortest_;
}

// By place. They are few.
void TotalsFold::sort_pauses() {
  for (uint32_t i = 1; i < pause_count_; ++i) {
    Pause moved = pauses_[i];
    uint32_t k = i;
    for (; k && pauses_[k - 1].place > moved.place; --k) pauses_[k] = pauses_[k - 1];
    pauses_[k] = moved;
  }
}

void TotalsFold::begin_piece(uint64_t first_ns) {
  pieces_[piece_count_] = {first_ns, first_ns, 0, 0, 0, 0, 0, -1, -1, range_count_, range_count_};
}

void TotalsFold::add_call(const Slot &slot, uint64_t t0, uint64_t t1) {
  auto fn = static_cast<Fn>(mark_kind(slot.mark.load(std::memory_order_relaxed)));
  // No longer than once around: another user's process may still write to the journal that is sealed for it.
  for (uint32_t i = 0; i < function_count_ && functions_[current_].fn != fn; ++i) {
    current_ = current_ + 1 < function_count_ ? current_ + 1 : 0;
  }
  FunctionTotals &sums = functions_[current_];
  const Function &f = *sums.f;
  uint64_t calls = calls_of(slot, f);
  if (!sums.lines++) sums.first_ns = t0;
  sums.last_ns = t0;
  if (t1 > sums.end_ns) sums.end_ns = t1;
  sums.time_ns += t1 - t0;
  sums.calls += calls;
  sums.durations.add(t1 - t0);
  TotalsPiece &piece = pieces_[piece_count_];
  // The union of the calls' times: a run of single-character calls ends within the call that ends it.
  if (t1 > end_ns_) {
    piece.busy_ns += t1 - (t0 > end_ns_ ? t0 : end_ns_);
    piece.last_ns = end_ns_ = t1;
  }
  if (f.shape == Shape::kSeek || f.shape == Shape::kStream) sums.ahead += static_cast<int64_t>(slot.count);
  if (direction_ == Direction::N) return;
  int64_t bytes = moved_bytes(slot, f);
  sums.sizes.add(static_cast<uint64_t>(bytes));
  sums.size += static_cast<uint64_t>(bytes);
  bool asked = f.shape != Shape::kChars && slot.count != UINT64_MAX;
  sums.count = asked && sums.count != UINT64_MAX ? sums.count + slot.count : UINT64_MAX;
  piece.calls += calls;
  piece.bytes += static_cast<uint64_t>(bytes);
  add_access(slot, sums, bytes);
}

void TotalsFold::add_access(const Slot &slot, FunctionTotals &sums, int64_t bytes) {
  TotalsPiece &piece = pieces_[piece_count_];
  int64_t end;
  if (slot.offset < 0 || __builtin_add_overflow(slot.offset, bytes, &end)) {
    piece.loose += static_cast<uint64_t>(bytes);
    return;
  }
  if (bytes > 0) {
    if (piece.from < 0) piece.from = slot.offset;
    if (slot.offset < piece.to) ++piece.backward;
    piece.to = end;
    // The first one may go on where another line ended.
    const bool jumps = ended_at_ >= 0 && slot.offset != ended_at_;
    if (slot.offset == ended_at_) ++sums.followed;
    ended_at_ = end;
    if (block_bytes_) {
      const auto calls = static_cast<int64_t>(calls_of(slot, *sums.f));
      sums.placed += static_cast<uint64_t>(calls);
      if (jumps && bytes >= calls && touches_block_more(slot.offset, bytes / calls, block_bytes_)) ++sums.unaligned;
    }
  }
  if (range_count_ > piece.ranges_begin && ranges_[range_count_ - 1].end == slot.offset) {
    ranges_[range_count_ - 1].end = end;
  } else {
    ranges_[range_count_++] = {slot.offset, end};
  }
}

static bool is_before(const TotalsRange &a, const TotalsRange &b) {
  return a.start != b.start ? a.start < b.start : a.end < b.end;
}

// Heapsort: in place, without recursion, and the core has no C++ run time.
static void sort_ranges(TotalsRange *ranges, uint32_t count) {
  auto sink = [&](uint32_t i, uint32_t n) {
    for (uint32_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
      if (child + 1 < n && is_before(ranges[child], ranges[child + 1])) ++child;
      if (!is_before(ranges[i], ranges[child])) return;
      TotalsRange moved = ranges[i];
      ranges[i] = ranges[child];
      ranges[child] = moved;
      i = child;
    }
  };
  for (uint32_t i = count / 2; i-- > 0;) sink(i, count);
  for (uint32_t n = count; n-- > 1;) {
    TotalsRange greatest = ranges[0];
    ranges[0] = ranges[n];
    ranges[n] = greatest;
    sink(0, n);
  }
}

// The union of the piece's ranges.
void TotalsFold::end_piece() {
  TotalsPiece &piece = pieces_[piece_count_++];
  TotalsRange *ranges = ranges_ + piece.ranges_begin;
  uint32_t count = range_count_ - piece.ranges_begin, last = 0;
  bool sorted = true;
  for (uint32_t i = 1; i < count; ++i) sorted = sorted && is_before(ranges[i - 1], ranges[i]);
  if (!sorted) sort_ranges(ranges, count);
  for (uint32_t i = 1; i < count; ++i) {
    if (ranges[i].start > ranges[last].end) {
      ranges[++last] = ranges[i];
    } else if (ranges[i].end > ranges[last].end) {
      ranges[last].end = ranges[i].end;
    }
  }
  range_count_ = piece.ranges_end = piece.ranges_begin + (count ? last + 1 : 0);
}

// ---- text ----

static char *put_number(char *p, uint64_t v) {
  *p++ = ',';
  return put_decimal(p, v);
}

static char *put_counts(char *p, string_view key, const BitCounts &counts) {
  p = put(p, key);
  bool any = false;
  for (unsigned bits = 0; bits <= 64; ++bits) {
    if (!counts.of[bits]) continue;
    if (any) *p++ = ',';
    p = put_number(put_decimal(p, bits), counts.of[bits]);
    any = true;
  }
  *p++ = ']';
  return p;
}

char *TotalsFold::put_args(char *p, uint32_t i) const {
  const FunctionTotals &sums = functions_[i];
  const Function &f = *sums.f;
  p = put_field(p, ",\"lines\":", sums.lines);
  p = put_field(p, ",\"calls\":", static_cast<int64_t>(sums.calls));
  if (direction_ != Direction::N) {
    if (sums.count != UINT64_MAX) p = put_field(p, ",\"count\":", static_cast<int64_t>(sums.count));
    p = put(p, f.direction == Direction::R ? string_view(",\"dir\":\"r\"") : string_view(",\"dir\":\"w\""));
    p = put_field(p, ",\"size\":", static_cast<int64_t>(sums.size));
  }
  p = put_field(p, ",\"span\":", static_cast<int64_t>(sums.end_ns - sums.first_ns));
  p = put_field(p, ",\"last\":", static_cast<int64_t>(sums.last_ns - sums.first_ns));
  if (direction_ != Direction::N) {
    if (sums.followed) p = put_field(p, ",\"followed\":", static_cast<int64_t>(sums.followed));
    if (sums.placed) p = put_field(p, ",\"placed\":", static_cast<int64_t>(sums.placed));
    if (sums.unaligned) p = put_field(p, ",\"unaligned\":", static_cast<int64_t>(sums.unaligned));
    p = put_counts(p, ",\"sizes\":[", sums.sizes);
  }
  p = put_counts(p, ",\"durs\":[", sums.durations);
  if (sums.ahead) p = put_field(p, ",\"ahead\":", sums.ahead);
  if (direction_ == Direction::N) return p;
  return i ? put(p, ",\"pieces\":[]") : put_pieces(p);
}

char *TotalsFold::put_pieces(char *p) const {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < piece_count_; ++i) {
    for (uint32_t k = pieces_[i].ranges_begin; k < pieces_[i].ranges_end; ++k) {
      bits |= static_cast<uint64_t>(ranges_[k].start | ranges_[k].end);
    }
  }
  unsigned shift = bits ? static_cast<unsigned>(__builtin_ctzll(bits)) : 0;
  p = put_decimal(put(p, ",\"pieces\":["), uint64_t{1} << shift);
  uint64_t before_ns = pieces_[0].first_ns;
  int64_t at = 0;
  for (uint32_t i = 0; i < piece_count_; ++i) {
    const TotalsPiece &piece = pieces_[i];
    const TotalsRange *ranges = ranges_ + piece.ranges_begin;
    uint32_t count = piece.ranges_end - piece.ranges_begin;
    p = put_decimal(put(p, ",["), piece.first_ns - before_ns);
    before_ns = piece.last_ns;
    p = put_number(p, piece.last_ns - piece.first_ns);
    for (uint64_t number : {piece.calls, piece.bytes, piece.busy_ns}) p = put_number(p, number);
    bool moved = count && piece.bytes;
    bool usual = piece.from == (moved ? ranges[0].start : -1) && piece.to == (moved ? ranges[count - 1].end : -1) &&
                 !piece.backward && piece.loose == (count ? 0 : piece.bytes);
    bool goes_on =
        count == 1 && ranges[0].start == at && static_cast<uint64_t>(ranges[0].end - ranges[0].start) == piece.bytes;
    if (!usual || !goes_on) {
      p = put(p, ",[");
      int64_t upto = 0;
      for (uint32_t k = 0; k < count; ++k) {
        if (k) *p++ = ',';
        p = put_decimal(p, static_cast<uint64_t>(ranges[k].start - upto) >> shift);
        p = put_number(p, static_cast<uint64_t>(ranges[k].end - ranges[k].start) >> shift);
        upto = ranges[k].end;
      }
      *p++ = ']';
    }
    if (!usual) {
      *p++ = ',';
      p = put_signed(p, piece.from);
      *p++ = ',';
      p = put_signed(p, piece.to);
      p = put_number(put_number(p, piece.backward), piece.loose);
    }
    *p++ = ']';
    if (piece.to >= 0) at = piece.to;
  }
  return put(p, "]");
}

}  // namespace tailrace
