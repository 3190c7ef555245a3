// Sealing: a journal segment becomes blocks of JSON lines in a trace file. The traced process seals its own segments,
// its launcher those of dead processes; both use these functions.
#pragma once

#include "format/block.h"
#include "format/crc32.h"
#include "format/functions.h"

namespace tailrace {

constexpr size_t kBlockRawBytes = 1 << 20;
// One line with the longest path, escaped and in hex, or the longest process record.
constexpr size_t kLineSlackBytes = 192 * 1024;

// Working memory for sealing, about 3 MiB of which a short process touches little. One seal at a time.
class SealScratch;
SealScratch *make_seal_scratch();  // null when there is no memory
void free_seal_scratch(SealScratch *scratch);

struct SealTotals {
  uint64_t blocks = 0;
  uint64_t events = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t file_bytes = 0;      // of the blocks themselves
  uint64_t run_json_bytes = 0;  // read of it, for the run's id
  uint64_t lost[static_cast<int>(Loss::kCount)] = {};
};

// Where blocks go. append() returns 0, or -errno; `next_slot` is the first slot of the segment that is not in the
// block.
struct BlockTarget {
  void *self;
  int (*append)(void *self, SegmentHeader &segment, string_view member, uint32_t next_slot);
};

struct SealOptions {
  const BlockTarget *target = nullptr;  // null: the segment's own trace file
  bool last = false;          // no block of the segment follows: one is written for the ledger alone, where it must be
  uint64_t sealed_bytes = 0;  // of the run, beside those in the process's own trace file (format/choices.h)
  // The calling thread's processor time up to which blocks have an account; each block's is its own until then. Null:
  // none.
  uint64_t *accounted_ns = nullptr;
  bool by_process = false;  // its own process seals
  // Where it becomes 1, no further block is written: -ECANCELED, and `unwritten` is not the whole number.
  const std::atomic<uint32_t> *canceled = nullptr;
};

// Seals the records of [segment.first_slot, used_slots) and appends the blocks to the segment's trace file;
// advances segment.first_slot with each. `now` becomes the begin of the next epoch's clock map. Stops at the first
// block that can't be written: returns -errno, and in `unwritten` the events that are left in the segment.
int seal_segment(SegmentHeader &segment, uint32_t used_slots, SealScratch &scratch, ClockSample &now,
                 SealTotals *totals = nullptr, uint64_t *unwritten = nullptr, const SealOptions &options = {});

// The clock map of the segment's epoch, if it ends at `now`, whose time becomes the map's.
ClockMap map_until(const SegmentHeader &segment, ClockSample &now);

// Empties the segment: the next epoch's clock begins at `now`, behind a map of the rate `rate_q32` (a record that comes
// later may have begun before); its first record is of thread `tid`, its number is above `above`.
void empty_segment(SegmentHeader &segment, const ClockSample &now, uint64_t rate_q32, uint32_t tid, uint32_t above = 0);

// Seals the journals of dead processes in `directory` (write_journal_directory) and removes them.
struct SealedJournals {
  uint64_t sealed = 0;
  uint64_t alive = 0;
  uint64_t failed = 0;         // kept: the run directory is full, or another user's
  uint64_t failed_events = 0;  // in them
  uint64_t removed = 0;        // times that somebody removed their directory, or the sealer's board in it
  SealTotals totals;
  uint64_t unrecorded_lost[static_cast<int>(Loss::kCount)] = {};  // that no block reports
  uint64_t writing_ns = 0;  // processor time of writing to files of many processes
};
// Returns 0, or -errno when the directory can't be read or isn't this user's; an absent directory is 0. Only journals
// whose trace file is in `trace_directory` are sealed (empty: in any).
int seal_dead_journals(const char *directory, SealedJournals &result, string_view trace_directory = {});

// Writes the path of the trace file that a journal of this user is sealed into. False: it is another user's, or none.
bool write_trace_file_of(const char *journal, Writer &out);

}  // namespace tailrace
