// What turns records into lines and lines into blocks, for the files that have its parts: seal.cc blocks, names,
// contexts and calls, seal_regions.cc the application's own events, seal_totals.cc lines of totals.
#pragma once

#include "format/block_summary.h"
#include "format/choices.h"
#include "format/line_writer.h"
#include "format/run_id.h"
#include "format/seal.h"
#include "format/totals.h"

namespace tailrace {

constexpr uint32_t kNameTableSize = 4 * kSegmentSlots;  // a power of two

struct NameEntry {
  uint64_t hash;
  uint32_t slot;
  uint32_t emitted_in;  // the block, counted in this scratch, that has its FH line
  TextPlace hash_at;    // in that block
};

// A context of the segment. Ids are small and few, so a list is searched.
struct ContextEntry {
  uint32_t id;
  uint32_t slot;
  uint32_t listed_in;  // the block whose header has it
};

// A record whose line was written in this block: one that differs from it in times and offset alone has the same line.
struct WrittenRecord {
  uint32_t generation;  // of what lines depend on besides their record (Sealer::generation)
  uint32_t mark, context;
  bool has_offset;
  uint64_t file, file2, count;
  int64_t ret, size;
  const Function *f;
  LineWriter::Kept line;

  bool is_like(const Slot &slot, uint32_t of_generation) const {
    return generation == of_generation && mark == slot.mark.load(std::memory_order_relaxed) &&
           context == slot.context && file == slot.file && file2 == slot.file2 && count == slot.count &&
           ret == slot.ret && (slot.offset >= 0) == has_offset;
  }
};
constexpr size_t kWrittenRecords = 64;

// What the lines of a region's definition have in common under a context.
struct WrittenRegion {
  uint32_t generation;  // 0: nothing is kept
  uint32_t mark, context;
  uint64_t definition;
  uint32_t definition_slot, context_slot;
  size_t opening_bytes, tail_bytes, all_bytes;  // all: with the context
  bool whole;                                   // there was room for all of them
  char opening[6 * 256 + 64], tail[4096];
};
constexpr size_t kWrittenRegions = 16;

class SealScratch {
 public:
  char raw[kBlockRawBytes + kLineSlackBytes];
  char headroom[kFrameBytes + kMaxHeaderBytes + kHeaderCheckBytes];  // for the frame, right before the stream
  char out[kBlockRawBytes + kLineSlackBytes + 64 * 1024];
  char header[kMaxHeaderBytes];
  SummaryRoom summary;
  char context_json[kContextJsonBytes];
  char text[16 * 1024];
  NameEntry names[kNameTableSize];
  ContextEntry contexts[kSegmentSlots];
  uint32_t block_number;
  TotalsTable groups;
  TotalsFold fold;
  LineWriter lines;
  uint32_t generation;
  WrittenRecord written[kWrittenRecords];
  WrittenRegion regions[kWrittenRegions];
  RunId run;
};

class Sealer {
 public:
  Sealer(SegmentHeader &segment, SealScratch &scratch, SealTotals *totals, const SealOptions &options)
      : segment_(segment),
        s_(scratch),
        totals_(totals),
        options_(options),
        epoch_(static_cast<uint16_t>(segment.epoch.load(std::memory_order_relaxed))),
        epoch_shift_ns_(segment.start_realtime_ns - segment.start_monotonic_ns),
        summary_(scratch.summary) {
    set_thread(segment.first_tid);
  }

  int run(uint32_t from, uint32_t to, ClockSample &now);
  uint64_t unwritten() const { return unwritten_; }

 private:
  void set_thread(uint32_t tid);
  void index_names(uint32_t to);
  void begin_block(uint32_t slot);
  void end_block(uint32_t next_slot);
  void add_record(uint32_t index);
  void add_event(uint32_t index);
  const WrittenRegion *written_region(const Slot &slot, uint32_t mark);
  void add_region(const Slot &slot, const Function &f);
  char *put_region_keys(char *p, const Slot &slot);
  const NameEntry *stack_of(uint32_t index);
  char *put_stack(char *p, const NameEntry &stack);
  WrittenRecord &written_like(const Slot &slot);
  bool add_again(const Slot &slot, const WrittenRecord &written);
  bool is_summed(uint64_t file);
  bool add_to_group(uint32_t index, const Slot &slot, Fn fn, const Function &f);
  void put_group(TotalsGroup &group);
  void put_totals(const TotalsGroup &group, uint32_t i);
  void put_groups();
  void put_groups_of(const Slot &slot, const Function &f);
  void add_odd_event(EventLine &line, const Slot &slot, const Function &f, int64_t size, const NameEntry *stack);
  void add_file_line(NameEntry &name);
  char *put_object(char *p, uint64_t hash);
  ContextEntry *find_context(uint32_t id);
  void add_context(uint32_t index);
  void use_context(uint32_t id);
  string_view take_members();
  uint64_t begin_ns(const Slot &slot, const Function &f) const;
  uint64_t end_ns(const Slot &slot, const Function &f, uint64_t t0) const;
  bool keep_members_of(const Slot &slot) const;
  char *put_layer_args(char *p, const Slot &slot);
  const TimeSlot *time_of(const Slot &slot);
  char *put_start_args(char *p);
  char *put_exit_args(char *p, const Slot &slot);
  void list_untraced(int64_t pid, const Slot &slot, uint64_t field);
  string_view cut_off_call() const;

  char *put_metadata(char *p, string_view name);
  NameEntry *find_name(uint64_t hash);
  string_view text_of(uint32_t index);
  bool valid(uint32_t index, uint16_t kind) {
    return segment_.slot(index)->mark.load(std::memory_order_acquire) == make_mark(kind, epoch_);
  }
  void lose(Loss cause, uint64_t n) { segment_.lost[static_cast<int>(cause)].fetch_add(n, std::memory_order_relaxed); }

  SegmentHeader &segment_;
  SealScratch &s_;
  SealTotals *totals_;
  const SealOptions &options_;
  const uint16_t epoch_;
  uint32_t tid_ = 0;
  const uint64_t epoch_shift_ns_;
  ClockMap clock_;
  // The parts of an event's line that are the same for all of a thread.
  char thread_[64];
  size_t thread_bytes_ = 0;
  int status_ = 0;
  uint64_t unwritten_ = 0;
  uint32_t name_mask_ = 0;
  uint32_t context_count_ = 0;
  uint32_t used_slots_ = 0;
  uint64_t last_ticks_ = 0;  // the latest begin of the records so far

  bool sums_ = false;       // detail: lines of totals
  bool some_sums_ = false;  // of some files, whatever the detail

  // The block that is being built.
  size_t group_bytes_ = 0;  // of the lines of groups, at most
  uint32_t first_slot_ = 0;
  BlockSummary summary_;
  uint32_t process_slot_ = UINT32_MAX;
  uint32_t keys_slot_ = UINT32_MAX;       // of the region that begins next
  uint32_t members_slot_ = UINT32_MAX;    // of the record that comes next
  uint32_t time_slot_ = UINT32_MAX;       // the same, of a wait
  uint32_t stack_slot_ = UINT32_MAX - 1;  // right before that of the call whose stack it has
  // What context_json holds: the end of a line.
  bool context_valid_ = false;
  uint32_t context_id_ = 0;
  uint32_t context_slot_ = UINT32_MAX;
  size_t context_bytes_ = 0;
};

}  // namespace tailrace
