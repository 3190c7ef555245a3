// The contents of a block's header (docs/trace-format.md, "Block header"), collected while its lines are written.
#pragma once

#include "format/functions.h"
#include "format/journal.h"
#include "format/program.h"
#include "format/tags.h"

namespace tailrace {

// Contexts are listed in the header until it reaches this; then the block is sealed. The rest is for the process
// record.
constexpr size_t kHeaderContextBytes = 36 * 1024;
constexpr size_t kHeaderProcessBytes = 20 * 1024;
constexpr size_t kExitBytes = 640;
// The longest tags as a string of JSON, or as the members of a line.
constexpr size_t kContextJsonBytes = 16 * 1024 + kMaxTagsBytes * 6;

// Its memory, a part of SealScratch.
struct SummaryRoom {
  char contexts[kHeaderContextBytes + kContextJsonBytes];
  char process[kHeaderProcessBytes];
  char exit[kExitBytes];
  char reaped[4096];
  char untraced[4096];
};

class BlockSummary {
 public:
  explicit BlockSummary(SummaryRoom &room)
      : room_(room),
        contexts_(room.contexts, sizeof room.contexts),
        reaped_(room.reaped, sizeof room.reaped),
        untraced_(room.untraced, sizeof room.untraced) {}

  void clear();
  void add_line() { ++lines_; }
  void add_event(const Function &f, uint64_t t0_ns, uint64_t t1_ns, int64_t bytes);
  // The processor time that this block has to account for (SealOptions), of the process itself or of a sealer.
  // What recording takes is not measured: two readings of that clock cost more than a record.
  void set_sealing(uint64_t ns, bool by_process) { sealing_ns_ = ns, by_process_ = by_process; }
  // The id of the run; empty: not known. Valid as long as the block.
  void set_run(string_view id) { run_ = id; }
  // The event added last is a line of totals of so many records.
  void add_totals(uint64_t records) { ++totals_lines_, totals_records_ += records; }
  // The event added last has a call stack.
  void add_stack() { ++stacks_; }
  // A context that an event of the block has; listed once.
  void add_context(string_view tags);
  // A reaped child, and its processor time.
  void add_reaped(const Slot &slot, const ProcessTime &time);
  // A started program that can't be traced.
  void add_untraced(int64_t pid, Obstacle obstacle, string_view program);
  // The call in which the thread's process ended, empty: none.
  void set_cut_off(string_view call) { cut_off_ = call; }
  bool has_cut_off() const { return !cut_off_.empty(); }
  // The members of the process record, as they are in the block's line.
  void set_process(string_view members);
  // The members of the exit event's args; `account` may be empty. Valid as long as the block.
  string_view set_exit(int64_t code, string_view account);

  uint64_t events() const { return events_; }
  // The events that there are under full detail.
  uint64_t records() const { return events_ - totals_lines_ + totals_records_; }
  uint64_t read_bytes() const { return read_; }
  uint64_t written_bytes() const { return written_; }
  // Nothing may be added after this.
  bool is_full() const {
    return contexts_.size() >= kHeaderContextBytes || reaped_.room() < 256 || untraced_.room() < 512;
  }

  // lost: of each cause, what the block reports; the segment's own counts may grow at any time.
  void write(Writer &h, const SegmentHeader &segment, const uint64_t (&lost)[static_cast<int>(Loss::kCount)],
             size_t deflate_bytes, size_t raw_bytes, uint32_t next_slot) const;

 private:
  SummaryRoom &room_;
  uint64_t lines_ = 0, events_ = 0, read_ = 0, written_ = 0, t0_ = 0, t1_ = 0;
  uint64_t uncounted_[2] = {0, 0};
  uint64_t sealing_ns_ = 0;
  bool by_process_ = false;
  string_view run_;
  uint64_t totals_lines_ = 0, totals_records_ = 0, stacks_ = 0;
  Writer contexts_, reaped_, untraced_;
  string_view process_, exit_, cut_off_;
};

}  // namespace tailrace
