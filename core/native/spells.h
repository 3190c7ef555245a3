// Spells: what an actor moved of a file in one direction between two pauses (analyzer/edges.py says what for).
//
//     accesses, or the spells of partial tables --fold--> spells, each with its byte ranges and times
//
// What always holds: rows of a key (actor, file, direction) join unless a pause lies between them or the second one
// truncates the file; past the limit the shortest pauses are closed first, truncations last. An access is a spell of
// one call, so one and the same fold makes partial tables and combines them.
#pragma once

#include <cstdint>
#include <vector>

#include "growing.h"
#include "intervals.h"

namespace tailrace::native {

enum SpellColumn : size_t { kWho, kFile, kDirection, kFirst, kLast, kBytes, kCalls, kLoose, kMapped, kSpellColumns };

// As the frame of spells has them, in this order.
inline constexpr const char *kSpellNames[kSpellColumns] = {"who",   "file",  "dir",         "first_ns",    "last_ns",
                                                           "bytes", "calls", "loose_bytes", "mapped_bytes"};

// One call, or what a call did to one file: a row that is a cache line.
struct Access {
  int64_t first_ns, last_ns;
  int64_t bytes, calls, mapped;
  int64_t offset;  // below 0: unknown
  int32_t who, file;
  uint8_t direction;
  bool fresh;  // truncates the file
};

struct SpellView {
  const int64_t *column[kSpellColumns] = {};
  const bool *fresh = nullptr;  // begins with a truncation
  const bool *exact = nullptr;  // its byte ranges cover nothing that was not moved
  size_t size = 0;
};

// The spells of a partial table with their intervals, whose groups are positions of spells, ascending; `who` and `file`
// give the common codes of its own.
struct SpellPart {
  SpellView spells;
  IntervalView extents, times;
  const int64_t *who = nullptr;
  const int64_t *file = nullptr;
};

struct SpellLimits {
  int64_t pause_ns;  // calls closer than this are of one spell
  size_t spells;     // of a key
  size_t extents;    // of a spell
  size_t times;      // of a spell
};

struct Spells {
  Growing<int64_t> column[kSpellColumns];
  Growing<bool> fresh, exact;

  size_t size() const { return fresh.size(); }
  void reserve(size_t count) {
    for (Growing<int64_t> &values : column) values.reserve(count);
    fresh.reserve(count);
    exact.reserve(count);
  }
};

struct SpellTable {
  Spells spells;             // sorted by (who, file, direction, first_ns)
  Intervals extents, times;  // groups are positions in `spells`
};

// `actors`: (common) codes of actors are below it. Throw std::length_error on 2^32 rows or intervals of a part.
SpellTable fold_accesses(const std::vector<Access> &accesses, size_t actors, const SpellLimits &limits);
SpellTable fold_spells(const std::vector<SpellPart> &parts, size_t actors, const SpellLimits &limits);

}  // namespace tailrace::native
