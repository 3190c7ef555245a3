// Access bursts: what an actor moved of a file in one direction between two pauses (analyzer/edges/edge_table.py).
//
//     accesses, or the bursts of partial tables --fold--> bursts, each with its byte ranges and times
//
// Invariants: rows of a key (actor, file, direction) join unless a pause is between them or the second one truncates
// the file, or cuts a part out of it. Past the limit the shortest pauses are closed first, truncations last; then a
// burst has bytes from before and after one, which makes it inexact, and hides the truncation. An access is a burst of
// one call, so the same fold makes partial tables and combines them.
#pragma once

#include <cstdint>
#include <vector>

#include "growing.h"
#include "intervals.h"

namespace tailrace::native {

// kRelayed: bytes that the kernel moved from file to file. kBackward: accesses before the end of the one before them.
// kFrom, kTo: where the first access began and the last one ended; -1 without an access at a known offset.
enum BurstColumn : size_t {
  kWho,
  kFile,
  kDirection,
  kFirst,
  kLast,
  kBytes,
  kCalls,
  kLoose,
  kMapped,
  kRelayed,
  kBackward,
  kFrom,
  kTo,
  kBurstColumns
};

// As the frame of bursts has them, in this order.
inline constexpr const char *kBurstNames[kBurstColumns] = {
    "who",         "file",         "dir",           "first_ns", "last_ns",     "bytes",    "calls",
    "loose_bytes", "mapped_bytes", "relayed_bytes", "backward", "from_offset", "to_offset"};

// One call, or what a call did to one file: a row that is a cache line.
struct Access {
  int64_t first_ns, last_ns;
  int64_t bytes, calls, mapped;
  int64_t offset;  // below 0: unknown
  int32_t who, file;
  uint8_t direction;
  bool fresh;    // truncates the file to nothing
  bool cut;      // cuts off or out a part of it
  bool relayed;  // from or to another file, by the kernel
};

struct BurstView {
  const int64_t *column[kBurstColumns] = {};
  const bool *fresh = nullptr;  // begins with a truncation to nothing
  const bool *cut = nullptr;    // begins with another cut
  const bool *hides = nullptr;  // has a truncation to nothing that it does not begin with
  const bool *exact = nullptr;  // its byte ranges cover only what was moved
  size_t size = 0;
};

// The bursts of a partial table with their intervals, whose groups are positions of bursts, ascending; `who` and `file`
// map its own codes to the common ones.
struct BurstPart {
  BurstView bursts;
  IntervalView extents, times;
  const int64_t *who = nullptr;
  const int64_t *file = nullptr;
};

struct BurstLimits {
  int64_t pause_ns;  // calls closer than this belong to one burst
  size_t bursts;     // of a key
  size_t extents;    // of a burst
  size_t times;      // of a burst
};

struct Bursts {
  Growing<int64_t> column[kBurstColumns];
  Growing<bool> fresh, cut, hides, exact;

  size_t size() const { return fresh.size(); }
  void reserve(size_t count) {
    for (Growing<int64_t> &values : column) values.reserve(count);
    fresh.reserve(count);
    cut.reserve(count);
    hides.reserve(count);
    exact.reserve(count);
  }
};

struct BurstTable {
  Bursts bursts;             // sorted by (who, file, direction, first_ns)
  Intervals extents, times;  // groups are positions in `bursts`
};

// `actors`: (common) codes of actors are below it. Throw std::length_error on 2^32 rows or intervals of a part.
BurstTable fold_accesses(const std::vector<Access> &accesses, size_t actors, const BurstLimits &limits);
BurstTable fold_bursts(const std::vector<BurstPart> &parts, size_t actors, const BurstLimits &limits);

}  // namespace tailrace::native
