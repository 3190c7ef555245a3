// The board: a small file in a run's journal directory by which the node's sealer (format/node_sealer.h) and the
// processes of the run tell each other how things stand. Processes map it (session/hand_over.h). The sealer reads and
// writes it by system calls, so that a process that cuts it can't end the sealer by SIGBUS.
//
// - The sealer that holds the board's lock (flock) is the node's sealer. The kernel frees the lock of a dead one.
// - Nothing on the board is needed for what is recorded: a board that is gone, stale or overwritten only means that
//   processes seal for themselves, or that the sealer looks at a journal later. Who owns a segment, and what of it is
//   sealed, is in the journal alone.
#pragma once

#include "format/journal.h"

namespace tailrace {

constexpr string_view kBoardName = "sealer.board";
constexpr uint32_t kBoardMagic = 0x44425254;  // "TRBD"
constexpr size_t kBells = 1024;

struct SealerBoard {
  // By the sealer.
  std::atomic<uint32_t> magic;
  uint32_t version;                    // kJournalVersion
  std::atomic<uint64_t> heartbeat_ns;  // CLOCK_MONOTONIC; 0: there is no sealer
  std::atomic<uint32_t> has_room;      // processes may make segments for handing over, and leave theirs at their end
  std::atomic<uint32_t> seen;          // `ended`, as of the sealer's last look at the journals
  // By the processes: that end, and one counter for the segments of a number (bell_of), moved when there is something
  // for the sealer in one of them.
  alignas(64) std::atomic<uint32_t> ended;
  alignas(64) std::atomic<uint32_t> bells[kBells];
};

constexpr uint64_t kStaleNs = 1'000'000'000;
// Ended processes whose journals the sealer has not looked at: past that it lags.
constexpr uint32_t kMostEnded = 4096;

constexpr size_t bell_of(uint64_t pid, uint64_t segment) { return (pid * 61 + segment) % kBells; }

}  // namespace tailrace
