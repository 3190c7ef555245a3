// See group_sums.h.
#include "group_sums.h"

#include <algorithm>
#include <unordered_map>

#include "saturating.h"

namespace tailrace::native {

namespace {

constexpr uint64_t kMostSlots = 1 << 20;  // of a table by code; past it a map is smaller

// The values of a column as numbers from 0 on, for each row; 0 is null. Returns how many there may be.
uint64_t codes_of(const Column &column, size_t rows, std::vector<uint32_t> *codes) {
  codes->resize(rows);
  if (column.type() == Type::kText) {
    for (size_t row = 0; row < rows; ++row) (*codes)[row] = static_cast<uint32_t>(column.index_at(row) + 1);
    return column.dictionary().size() + 1;
  }
  std::unordered_map<int64_t, uint32_t> numbers;
  int64_t last = 0;
  uint32_t last_code = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (column.is_null_int(row)) {
      (*codes)[row] = 0;
      continue;
    }
    const int64_t value = column.int_at(row);
    if (last_code == 0 || value != last) {
      last = value;
      last_code = numbers.emplace(value, static_cast<uint32_t>(numbers.size() + 1)).first->second;
    }
    (*codes)[row] = last_code;
  }
  return numbers.size() + 1;
}

// Gives each pair of a row's group and code a group of its own, numbered as they occur. Returns how many there are.
uint64_t divide(const std::vector<uint32_t> &codes, uint64_t most_codes, uint64_t group_count,
                std::vector<uint32_t> *groups) {
  uint32_t made = 0;
  if (group_count * most_codes <= kMostSlots) {
    std::vector<uint32_t> numbers(group_count * most_codes, 0);
    for (size_t row = 0; row < codes.size(); ++row) {
      uint32_t &number = numbers[(*groups)[row] * most_codes + codes[row]];
      if (number == 0) number = ++made;
      (*groups)[row] = number - 1;
    }
    return made;
  }
  std::unordered_map<uint64_t, uint32_t> numbers;
  for (size_t row = 0; row < codes.size(); ++row) {
    const auto [at, is_new] = numbers.emplace((*groups)[row] * most_codes + codes[row], made);
    if (is_new) ++made;
    (*groups)[row] = at->second;
  }
  return made;
}

void add(const Column &column, const std::vector<uint32_t> &groups, const Column &lines, size_t width, size_t at,
         std::vector<Figures> *figures) {
  for (size_t row = 0; row < groups.size(); ++row) {
    if (column.is_null_int(row)) continue;
    Figures &of = (*figures)[groups[row] * width + at];
    const int64_t value = column.int_at(row);
    of.sum = plus(of.sum, value);
    of.known = plus(of.known, lines.int_at(row));
    of.least = std::min(of.least, value);
    of.most = std::max(of.most, value);
    of.some = true;
  }
}

}  // namespace

GroupSums group_sums(const Batch &batch, const std::vector<size_t> &keys, const std::vector<size_t> &values,
                     size_t lines) {
  const size_t rows = batch.rows;
  std::vector<uint32_t> groups(rows, 0), codes;
  uint64_t count = rows > 0 ? 1 : 0;
  for (const size_t key : keys) {
    const uint64_t most = codes_of(*batch.columns[key], rows, &codes);
    if (most > 1 && rows > 0) count = divide(codes, most, count, &groups);
  }
  GroupSums found;
  found.first.assign(count, SIZE_MAX);
  found.calls.assign(count, 0);
  found.totals.assign(count, 0);
  const Column &calls = *batch.columns[lines];
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t group = groups[row];
    if (found.first[group] == SIZE_MAX) found.first[group] = row;
    const int64_t of_row = calls.int_at(row);
    found.calls[group] = plus(found.calls[group], of_row);
    found.totals[group] += of_row > 1 ? 1 : 0;
  }
  found.figures.resize(count * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    add(*batch.columns[values[i]], groups, calls, values.size(), i, &found.figures);
  }
  return found;
}

}  // namespace tailrace::native
