// Figures of groups of rows: counts, sums, least and greatest values (see reader.cc, sum_files).
//
// Invariants: a group is a combination of the values of the key columns, null included; groups are numbered as they
// occur. Sums stop at the ends of int64.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "columns.h"

namespace tailrace::native {

struct Figures {
  int64_t sum = 0;
  int64_t known = 0;  // calls of the rows that have a value
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  bool some = false;
};

struct GroupSums {
  std::vector<size_t> first;     // of each group, its first row
  std::vector<int64_t> calls;    // of each group
  std::vector<int64_t> totals;   // of each group, its rows that stand for several calls
  std::vector<Figures> figures;  // of each group and value column, by group
};

// The groups of the rows of a batch by its columns `keys`, with the figures of its columns `values`; `lines` is the
// column with the calls that a row stands for. Columns are given by their place in the batch.
GroupSums group_sums(const Batch &batch, const std::vector<size_t> &keys, const std::vector<size_t> &values,
                     size_t lines);

}  // namespace tailrace::native
