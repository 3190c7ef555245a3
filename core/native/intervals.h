// Unions of half-open intervals: the byte ranges of a file and the times of calls are both sets of them.
//
// Invariants: a union is sorted, and its intervals don't touch. Uniting it again changes nothing, and partial unions
// may be united in any order. Past a limit the smallest gaps are closed, so covered ranges stay covered; `weight` is
// how much was covered before. Sums and differences saturate at the ends of int64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "growing.h"
#include "saturating.h"

namespace tailrace::native {

struct Interval {
  int64_t start;
  int64_t end;     // exclusive
  int64_t weight;  // how much of it is covered

  bool operator<(const Interval &o) const { return start != o.start ? start < o.start : end < o.end; }
};

inline constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

// The intervals of one group; the memory is reused for the next group.
class IntervalSet {
 public:
  void clear() { rows_.clear(); }
  // One that ends before it begins (a negative size or duration in a damaged trace) covers nothing.
  void add(const Interval &row) {
    const bool covers = row.start < row.end;
    rows_.push_back({row.start, covers ? row.end : row.start, covers ? row.weight : 0});
  }

  // Unites them, then keeps at most `limit`. Returns whether gaps were closed for that.
  bool unite(size_t limit);

  const std::vector<Interval> &rows() const { return rows_; }

 private:
  void close_smallest_gaps(size_t limit);

  struct Gap {
    int64_t length;
    size_t before;  // the interval after the gap
  };
  std::vector<Interval> rows_;
  std::vector<Gap> gaps_;
  std::vector<bool> begins_;
};

// Parallel arrays, one element an interval; a group's intervals are contiguous. Without `weight` all is covered.
struct IntervalView {
  const int64_t *group = nullptr;
  const int64_t *start = nullptr;
  const int64_t *end = nullptr;
  const int64_t *weight = nullptr;
  size_t size = 0;

  Interval at(size_t i) const { return {start[i], end[i], weight == nullptr ? minus(end[i], start[i]) : weight[i]}; }
};

struct Intervals {
  Growing<int64_t> group, start, end, weight;

  void reserve(size_t count) {
    for (Growing<int64_t> *column : {&group, &start, &end, &weight}) column->reserve(count);
  }
  void add(int64_t of_group, const Interval &row) {
    group.push_back(of_group);
    start.push_back(row.start);
    end.push_back(row.end);
    weight.push_back(row.weight);
  }
  void add(int64_t of_group, const IntervalSet &set) {
    for (const Interval &row : set.rows()) add(of_group, row);
  }
};

// A row of one of several tables, each of which has fewer than 2^32.
struct Place {
  uint32_t part;
  uint32_t row;

  bool operator<(const Place &o) const { return part != o.part ? part < o.part : row < o.row; }
};

struct UnitedGroups {
  Intervals rows;           // sorted by (group, start)
  Growing<int64_t> coarse;  // groups in which gaps were closed, ascending
};

// Each group's union over all parts, with at most `limit` intervals; rows come in any order. Throws std::length_error
// when a part has 2^32 rows.
UnitedGroups unite_groups(const std::vector<IntervalView> &parts, size_t limit);

}  // namespace tailrace::native
