// Totals: records of one file, direction and context become one line for each function (docs/trace-format.md,
// "Totals").
//
//     records --add--> groups (file, direction), each a chain of its records --fold--> sums by function, and pieces
//
// A piece is an access burst of the edge table (core/native/bursts.h): accesses between two pauses, with the ranges of
// the file. So the reader's fold of pieces gives what its fold of the records themselves would give.
//
// Invariants: a chain's records are of one thread and context, in the order of their begins. The memory is bounded by
// the slots of a segment and zero between two segments.
//
// What order or identity rests on (opens, removals, locks, processes, failed calls) stays a line, and ends the lines of
// its file. Rejected: sampling, whose sums are wrong; the times of all calls, two incompressible bytes each.
#pragma once

#include "format/functions.h"
#include "format/journal.h"

namespace tailrace {

// Whether a line of totals can stand for the record: a call that succeeded, on one file, on whose order nothing but
// what totals keep depends.
bool can_be_summed(const Slot &slot, const Function &f);

constexpr uint32_t kNoSlot = UINT32_MAX;
constexpr size_t kGroupFunctions = 8;
constexpr size_t kPieces = 16;          // of a line: as many bursts as the edge table keeps of a key
constexpr uint64_t kPauseNs = 10'000;   // as the edge table's MIN_PAUSE_NS
constexpr uint32_t kMostFullLines = 3;  // of so few records a line each is shorter
constexpr uint64_t kMostCalls = INT32_MAX;

// The calls that a record stands for.
inline uint64_t calls_of(const Slot &slot, const Function &f) { return f.shape == Shape::kChars ? slot.count : 1; }

struct TotalsGroup {
  uint64_t file;
  uint64_t last_ticks;  // the begin of its last record
  uint64_t calls;
  uint32_t context;
  uint32_t count;  // of records; 0: it was written
  uint16_t head, tail;
  uint8_t direction;
  uint8_t function_count;
  Fn functions[kGroupFunctions];
};

class TotalsTable {
 public:
  // The group of the record's file and direction, made where there is none.
  TotalsGroup &find(uint64_t file, Direction direction);
  // Groups of `file` that have records; null-terminated.
  void find_all(uint64_t file, TotalsGroup *(&out)[4]);
  // Whether the group's line must be written before this record can be added.
  static bool ends_before(const TotalsGroup &group, const Slot &slot, Fn fn, uint64_t calls);
  // `calls`: that the record stands for (calls_of).
  void add(TotalsGroup &group, uint32_t index, const Slot &slot, Fn fn, uint64_t calls);
  uint32_t next(uint32_t index) const { return next_[index]; }
  // Groups are numbered in the order in which they were made.
  uint32_t size() const { return size_; }
  TotalsGroup &at(uint32_t i) { return groups_[i]; }
  // All groups are forgotten.
  void clear();

 private:
  static constexpr uint32_t kSlots = 8192;  // a power of two, twice the most groups
  uint32_t place_of(uint64_t file, Direction direction) const;

  uint32_t size_, last_;
  uint16_t index_[kSlots];  // 1 + the group
  uint16_t next_[kSegmentSlots];
  TotalsGroup groups_[kSegmentSlots];
};

// How many numbers have how many binary digits.
struct BitCounts {
  uint32_t of[65];
  void add(uint64_t number) { ++of[number ? 64 - __builtin_clzll(number) : 0]; }
};

struct FunctionTotals {
  const Function *f;
  Fn fn;
  uint32_t lines;
  uint64_t calls, followed;
  uint64_t placed, unaligned;
  uint64_t size, count;  // UINT64_MAX: not known of all
  int64_t ahead;         // of streams
  uint64_t first_ns, last_ns, end_ns, time_ns;
  BitCounts sizes, durations;
};

struct TotalsPiece {
  uint64_t first_ns, last_ns, calls, bytes, busy_ns, loose, backward;
  int64_t from, to;
  uint32_t ranges_begin, ranges_end;
};

struct TotalsRange {
  int64_t start, end;
};

// A group folded, and the working memory for it.
class TotalsFold {
 public:
  // `to_ns(ticks)`: a record's time,
  // and `pause_ticks`: what no pause of kPauseNs is shorter than.
  // `block_bytes` of the file, 0: not known.
  template <class ToNs>
  void fold(SegmentHeader &segment, const TotalsTable &table, const TotalsGroup &group, ToNs to_ns,
            uint64_t pause_ticks, uint32_t block_bytes);

  uint32_t function_count() const { return function_count_; }
  const FunctionTotals &function_at(uint32_t i) const { return functions_[i]; }
  // The args behind the file: the sums of the function; `pieces` with the first one, which began the group.
  char *put_args(char *p, uint32_t i) const;

 private:
  struct Pause {
    uint64_t ns;
    uint32_t place;  // of the record after it, in the chain
  };

  void begin(const TotalsGroup &group, uint32_t block_bytes);
  void add_pause(uint64_t ns, uint32_t place);
  void sort_pauses();
  void begin_piece(uint64_t first_ns);
  void end_piece();
  void add_call(const Slot &slot, uint64_t t0, uint64_t t1);
  void add_access(const Slot &slot, FunctionTotals &sums, int64_t bytes);
  char *put_pieces(char *p) const;

  Direction direction_;
  int64_t block_bytes_;
  int64_t ended_at_;  // where the access before ended, -1: not known
  uint64_t end_ns_;   // of all calls up to now
  uint32_t function_count_, current_;
  uint32_t pause_count_, piece_count_, range_count_;
  uint64_t shortest_;
  FunctionTotals functions_[kGroupFunctions];
  Pause pauses_[kPieces - 1];
  TotalsPiece pieces_[kPieces];
  TotalsRange ranges_[kSegmentSlots];
};

template <class ToNs>
void TotalsFold::fold(SegmentHeader &segment, const TotalsTable &table, const TotalsGroup &group, ToNs to_ns,
                      uint64_t pause_ticks, uint32_t block_bytes) {
  begin(group, block_bytes);
  uint64_t end = 0;
  uint32_t index = group.head;
  for (uint32_t place = 0; direction_ != Direction::N && place < group.count; ++place, index = table.next(index)) {
    const Slot &slot = *segment.slot(index);
    if (place && slot.t0 > end && slot.t0 - end >= pause_ticks) {
      uint64_t pause_ns = to_ns(slot.t0) - to_ns(end);
      if (pause_ns > kPauseNs) add_pause(pause_ns, place);
    }
    uint64_t upto = slot.t1 > slot.t0 ? slot.t1 : slot.t0;
    if (upto > end) end = upto;
  }
  sort_pauses();
  index = group.head;
  uint32_t pause = 0;
  for (uint32_t place = 0; place < group.count; ++place, index = table.next(index)) {
    const Slot &slot = *segment.slot(index);
    uint64_t t0 = to_ns(slot.t0), t1 = to_ns(slot.t1);
    if (t1 < t0) t1 = t0;
    bool paused = pause < pause_count_ && pauses_[pause].place == place;
    if (paused) end_piece();
    if (paused || !place) begin_piece(t0);
    pause += paused;
    add_call(slot, t0, t1);
  }
  end_piece();
}

}  // namespace tailrace
