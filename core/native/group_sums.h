// Figures of groups of rows: counts, sums, least and greatest values, values with their numbers (see reader.cc,
// sum_files).
//
//   rows --conditions--> chosen rows --keys--> groups --> figures
//
// Invariants: a group is a combination of the values of the keys, null included; groups are numbered as they occur.
// Sums stop at the ends of int64. Time ranges share a call that covers several of them: its sums are divided by the time
// in each, in whole units that add up to the call's; all else counts where the call begins.
// The written end of a copy (parse.h) adds nothing of the call to a figure, so that sums over all rows have each call once.
// analyzer/store/totals_ranges.py divides lines of totals, too.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "columns.h"

namespace tailrace::native {

// A group by a column's values; by the powers of two that they are in; by ranges of `width` of them; by ranges of time.
struct Key {
  enum class Kind : uint8_t { kValues, kPowers, kWidths, kTimes };
  Kind kind = Kind::kValues;
  size_t column = 0;  // of time, when calls begin
  int64_t width = 0;
  int64_t origin = 0;  // where time begins
};

// Rows whose value of a column of numbers is in one of these ranges, ends included, or is null.
struct Condition {
  size_t column = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  bool nulls = false;
};

// What is asked of a batch; columns are given by their place in it.
struct Asked {
  std::vector<Key> keys;
  std::vector<size_t> values;    // columns of numbers that get figures
  std::vector<size_t> gathered;  // columns whose values are listed
  std::vector<Condition> conditions;
  std::optional<std::string_view> keep;  // a byte a row: 0 where it does not fit
  bool ends_after = false;               // only calls that ended at or after `ended`
  int64_t ended = 0;
  size_t lines = 0;                  // the column with the calls that a row stands for
  size_t ts = 0, dur = 0, span = 0;  // only with ends_after and time ranges
};

struct Figures {
  int64_t sum = 0;    // of what of the calls is in the group
  int64_t whole = 0;  // of the calls that begin in it
  int64_t known = 0;  // calls of the rows that have a value, ends of copies among them
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  bool some = false;
};

// The different values of a column in a group, sorted, and how many rows have this one or one before it. Of text its
// codes in the column's dictionary.
struct Gathered {
  std::vector<int64_t> values;
  std::vector<int64_t> up_to;
};

struct GroupSums {
  std::vector<size_t> first;       // of each group, its first row
  std::vector<int64_t> range;      // of each group, the number of its time range
  std::vector<int64_t> calls;      // of each group
  std::vector<int64_t> totals;     // of each group, its rows that stand for several calls
  std::vector<Figures> figures;    // of each group and value column, by group
  std::vector<Gathered> gathered;  // of each group and gathered column, by group
};

// The rows that fit.
std::vector<uint32_t> chosen(const Batch &batch, const Asked &asked);

// The groups of the rows that fit. Throws std::length_error when a call covers more than a million time ranges.
GroupSums group_sums(const Batch &batch, const Asked &asked);

// The least value of the range that a value is in.
int64_t range_of(const Key &key, int64_t value);
// Whether a row's value has one.
bool has_range(const Key &key, const Column &column, size_t row);

}  // namespace tailrace::native
