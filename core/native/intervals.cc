// See intervals.h.
#include "intervals.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tailrace::native {

namespace {

struct GroupRange {
  int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min();
  size_t rows = 0;
  bool sorted = true;

  uint64_t span() const { return static_cast<uint64_t>(high) - static_cast<uint64_t>(low); }
};

GroupRange range_of(const std::vector<IntervalView> &parts) {
  GroupRange range;
  int64_t before = std::numeric_limits<int64_t>::min();
  for (const IntervalView &part : parts) {
    if (part.size >= std::numeric_limits<uint32_t>::max()) {
      throw std::length_error("a part of the edge table has 2^32 intervals; make the partitions smaller");
    }
    for (size_t row = 0; row < part.size; ++row) {
      range.low = std::min(range.low, part.group[row]);
      range.high = std::max(range.high, part.group[row]);
      range.sorted &= before <= part.group[row];
      before = part.group[row];
    }
    range.rows += part.size;
  }
  return range;
}

template <typename Visit>
void each_row(const std::vector<IntervalView> &parts, Visit visit) {
  for (size_t p = 0; p < parts.size(); ++p) {
    for (size_t row = 0; row < parts[p].size; ++row) {
      visit(parts[p].group[row], Place{static_cast<uint32_t>(p), static_cast<uint32_t>(row)});
    }
  }
}

// All rows by group; rows of a group keep their order. Most groups are dense codes: those are counted.
std::vector<Place> by_group(const std::vector<IntervalView> &parts, const GroupRange &range) {
  std::vector<Place> places;
  if (range.sorted) {
    places.reserve(range.rows);
    each_row(parts, [&](int64_t, Place place) { places.push_back(place); });
    return places;
  }
  places.resize(range.rows);
  if (range.span() < 4 * range.rows + 1024) {
    std::vector<size_t> next(range.span() + 2, 0);
    each_row(parts, [&](int64_t group, Place) { ++next[static_cast<size_t>(group - range.low) + 1]; });
    for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    each_row(parts,
             [&](int64_t group, Place place) { places[next[static_cast<size_t>(group - range.low)]++] = place; });
    return places;
  }
  std::vector<std::pair<int64_t, Place>> keyed;
  keyed.reserve(range.rows);
  each_row(parts, [&](int64_t group, Place place) { keyed.emplace_back(group, place); });
  std::sort(keyed.begin(), keyed.end());
  for (size_t i = 0; i < keyed.size(); ++i) places[i] = keyed[i].second;
  return places;
}

}  // namespace

bool IntervalSet::unite(size_t limit) {
  if (rows_.size() < 2) return false;
  if (!std::is_sorted(rows_.begin(), rows_.end())) std::sort(rows_.begin(), rows_.end());
  size_t last = 0;
  for (size_t i = 1; i < rows_.size(); ++i) {
    Interval &open = rows_[last];
    const Interval &row = rows_[i];
    if (row.start > open.end) {
      open.weight = std::min(open.weight, minus(open.end, open.start));
      rows_[++last] = row;
    } else {
      open.end = std::max(open.end, row.end);
      open.weight = plus(open.weight, row.weight);
    }
  }
  rows_[last].weight = std::min(rows_[last].weight, minus(rows_[last].end, rows_[last].start));
  rows_.resize(last + 1);
  if (rows_.size() <= limit) return false;
  close_smallest_gaps(limit);
  return true;
}

void IntervalSet::close_smallest_gaps(size_t limit) {
  gaps_.clear();
  for (size_t i = 1; i < rows_.size(); ++i) gaps_.push_back({minus(rows_[i].start, rows_[i - 1].end), i});
  const auto kept_end = gaps_.begin() + static_cast<std::ptrdiff_t>(limit - 1);
  std::nth_element(gaps_.begin(), kept_end, gaps_.end(), [](const Gap &a, const Gap &b) {
    return a.length != b.length ? a.length > b.length : a.before < b.before;
  });
  begins_.assign(rows_.size(), false);
  std::for_each(gaps_.begin(), kept_end, [this](const Gap &gap) { begins_[gap.before] = true; });
  size_t last = 0;
  for (size_t i = 1; i < rows_.size(); ++i) {
    if (begins_[i]) {
      rows_[++last] = rows_[i];
    } else {
      rows_[last].end = rows_[i].end;
      rows_[last].weight = plus(rows_[last].weight, rows_[i].weight);
    }
  }
  rows_.resize(last + 1);
}

UnitedGroups unite_groups(const std::vector<IntervalView> &parts, size_t limit) {
  UnitedGroups united;
  const GroupRange range = range_of(parts);
  if (range.rows == 0) return united;
  united.rows.reserve(range.rows);
  const std::vector<Place> places = by_group(parts, range);
  IntervalSet set;
  for (size_t i = 0; i < places.size();) {
    const int64_t group = parts[places[i].part].group[places[i].row];
    set.clear();
    for (; i < places.size() && parts[places[i].part].group[places[i].row] == group; ++i) {
      set.add(parts[places[i].part].at(places[i].row));
    }
    if (set.unite(limit)) united.coarse.push_back(group);
    united.rows.add(group, set);
  }
  return united;
}

}  // namespace tailrace::native
