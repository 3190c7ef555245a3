// See group_sums.h.
#include "group_sums.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "numbering.h"
#include "saturating.h"

namespace tailrace::native {

namespace {

constexpr uint64_t kMostSlots = 1 << 20;    // of a table by code; past it a map is smaller
constexpr int64_t kMostRanges = 1'000'000;  // MOST_RANGES of group_keys.py

using Rows = std::vector<uint32_t>;

int64_t floor_divided(int64_t value, int64_t width) {
  const int64_t quotient = value / width;
  return value % width < 0 ? quotient - 1 : quotient;
}

// The values of a key as numbers from 0 on, for each of the rows; 0 is null. Returns how many there may be.
uint64_t codes_of(const Key &key, const Column &column, const Rows &rows, std::vector<uint32_t> *codes) {
  codes->resize(rows.size());
  if (column.type() == Type::kText) {
    for (size_t i = 0; i < rows.size(); ++i) (*codes)[i] = static_cast<uint32_t>(column.index_at(rows[i]) + 1);
    return column.dictionary().size() + 1;
  }
  std::unordered_map<int64_t, uint32_t> numbers;
  int64_t last = 0;
  uint32_t last_code = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!has_range(key, column, rows[i])) {
      (*codes)[i] = 0;
      continue;
    }
    const int64_t value = range_of(key, column.int_at(rows[i]));
    if (last_code == 0 || value != last) {
      last = value;
      last_code = numbers.emplace(value, static_cast<uint32_t>(numbers.size() + 1)).first->second;
    }
    (*codes)[i] = last_code;
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

// Two numbers as a key.
struct Pair {
  uint32_t group;
  int64_t value;
  bool operator==(const Pair &other) const { return group == other.group && value == other.value; }
  uint64_t hash() const { return mixed(mixed(static_cast<uint64_t>(value)) + group); }
};

int64_t took(const Batch &batch, const Asked &asked, uint32_t row) {
  const Column &span = *batch.columns[asked.span];
  const Column &of = span.is_null_int(row) ? *batch.columns[asked.dur] : span;
  return of.is_null_int(row) ? 0 : of.int_at(row);
}

// Truncated; what int64 can't hold is its nearest value.
int64_t whole(double value) {
  constexpr double kEnd = 9223372036854775808.0;
  if (value >= kEnd) return std::numeric_limits<int64_t>::max();
  return value < -kEnd ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(value);
}

// The time ranges of calls, and the groups that they make of those of the other keys.
class Times {
 public:
  Times(const Batch &batch, const Asked &asked, Key key) : batch_(batch), asked_(asked), key_(key) {}

  // Moves each row to the group of the range in which it begins; notes the rows that cover several.
  void divide(const Rows &rows, std::vector<uint32_t> *groups) {
    const Column &ts = *batch_.columns[key_.column];
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t before = (*groups)[i];
      const int64_t begin = minus(ts.int_at(rows[i]), key_.origin);
      const int64_t first = floor_divided(begin, key_.width);
      const int64_t lasts = std::max<int64_t>(took(batch_, asked_, rows[i]), 0);
      const int64_t last = std::max(floor_divided(minus(plus(begin, lasts), 1), key_.width), first);
      (*groups)[i] = group(before, first);
      if (last == first) continue;
      if (last - first >= kMostRanges) throw std::length_error("a call covers more than a million ranges of time");
      several_.push_back({i, before, begin, lasts, first, last});
    }
  }

  // The shares of the calls that cover several ranges: see(index among the rows, group, is first, before, after), the
  // parts of a call up to the range's begin and end.
  template <typename See>
  void share(const See &see) {
    for (const Several &call : several_) {
      for (int64_t at = call.first; at <= call.last; ++at) {
        const auto part = [&](int64_t until) {
          return static_cast<double>(until - call.begin) / static_cast<double>(std::max<int64_t>(call.took, 1));
        };
        const double before = at == call.first ? 0.0 : part(at * key_.width);
        const double after = at == call.last ? 1.0 : part((at + 1) * key_.width);
        see(call.index, group(call.group, at), at == call.first, before, after);
      }
    }
  }

  const Numbering<Pair> &groups() const { return numbers_; }

 private:
  struct Several {
    size_t index;
    uint32_t group;  // by the other keys
    int64_t begin, took, first, last;
  };

  uint32_t group(uint32_t other, int64_t range) {
    if (numbers_.size() > 0 && other == last_.group && range == last_.value) return last_number_;
    last_ = {other, range};
    last_number_ = numbers_.number(last_);
    return last_number_;
  }

  const Batch &batch_;
  const Asked &asked_;
  const Key key_;
  Numbering<Pair> numbers_;
  Pair last_{};
  uint32_t last_number_ = 0;
  std::vector<Several> several_;
};

// Of the second end of a copy, which is no call: whether the column has a value of the call, which the first one has.
bool is_of_call(const Column &column) {
  constexpr std::string_view kOfCall[] = {"dur", "calls", "ret"};  // OF_CALL of schema.py
  return std::find(std::begin(kOfCall), std::end(kOfCall), column.name()) != std::end(kOfCall);
}

void add(const Column &column, const Rows &rows, const std::vector<uint32_t> &groups, const Column &lines, size_t width,
         size_t at, std::vector<Figures> *figures) {
  const bool of_call = is_of_call(column);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t calls = lines.int_at(rows[i]);
    if (column.is_null_int(rows[i]) || (of_call && calls == 0)) continue;
    Figures &of = (*figures)[groups[i] * width + at];
    const int64_t value = column.int_at(rows[i]);
    of.sum = plus(of.sum, value);
    of.known = plus(of.known, std::max<int64_t>(calls, 1));
    of.least = std::min(of.least, value);
    of.most = std::max(of.most, value);
    of.some = true;
  }
}

// Divides the sums of calls that cover several time ranges, which `add` has put where they begin.
void share(const Batch &batch, const Asked &asked, const Rows &rows, Times *times, GroupSums *found) {
  const size_t width = asked.values.size();
  times->share([&](size_t index, uint32_t group, bool is_first, double before, double after) {
    for (size_t i = 0; i < width; ++i) {
      const Column &column = *batch.columns[asked.values[i]];
      if (column.is_null_int(rows[index])) continue;
      if (is_of_call(column) && batch.columns[asked.lines]->int_at(rows[index]) == 0) continue;
      const int64_t value = column.int_at(rows[index]);
      const auto share_of = static_cast<double>(value);
      // Of the sums up to here, so that the parts of a call add up to it.
      const int64_t up_to = after == 1.0 ? value : whole(share_of * after);
      const int64_t part = minus(up_to, whole(share_of * before));
      Figures &of = found->figures[group * width + i];
      of.sum = plus(of.sum, is_first ? minus(part, value) : part);
    }
  });
}

// The different values of a column in each group, with their numbers.
void gather(const Column &column, const Rows &rows, const std::vector<uint32_t> &groups, const Column &lines,
            size_t width, size_t at, std::vector<Gathered> *gathered) {
  const bool of_call = is_of_call(column);
  const bool is_text = column.type() == Type::kText;
  Numbering<Pair> numbers;
  std::vector<int64_t> counts;
  Pair last{};
  uint32_t number = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t row = rows[i];
    if (is_text ? column.is_null_text(row) : column.is_null_int(row)) continue;
    if (of_call && lines.int_at(row) == 0) continue;
    const Pair pair{groups[i], is_text ? column.index_at(row) : column.int_at(row)};
    if (counts.empty() || !(pair == last)) {
      last = pair;
      number = numbers.number(pair);
      if (number == counts.size()) counts.push_back(0);
    }
    ++counts[number];
  }
  std::vector<uint32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&numbers](uint32_t a, uint32_t b) {
    return std::pair(numbers[a].group, numbers[a].value) < std::pair(numbers[b].group, numbers[b].value);
  });
  for (const uint32_t one : order) {
    Gathered &of = (*gathered)[numbers[one].group * width + at];
    of.up_to.push_back((of.up_to.empty() ? 0 : of.up_to.back()) + counts[one]);
    of.values.push_back(numbers[one].value);
  }
}

template <typename Fits>
void keep_if(const Fits &fits, Rows *rows) {
  rows->erase(std::remove_if(rows->begin(), rows->end(), [&](uint32_t row) { return !fits(row); }), rows->end());
}

bool fits(const Condition &condition, const Column &column, uint32_t row) {
  if (column.is_null_int(row)) return condition.nulls;
  const int64_t value = column.int_at(row);
  return std::any_of(condition.ranges.begin(), condition.ranges.end(),
                     [value](const auto &range) { return range.first <= value && value <= range.second; });
}

}  // namespace

int64_t range_of(const Key &key, int64_t value) {
  if (key.kind == Key::Kind::kPowers) {
    return value <= 0 ? 0 : int64_t{1} << (63 - __builtin_clzll(static_cast<uint64_t>(value)));
  }
  if (key.kind != Key::Kind::kWidths) return value;
  int64_t least;
  const bool is_past = __builtin_mul_overflow(floor_divided(value, key.width), key.width, &least);
  return is_past ? std::numeric_limits<int64_t>::min() : least;
}

bool has_range(const Key &key, const Column &column, size_t row) {
  return !column.is_null_int(row) && (key.kind != Key::Kind::kPowers || column.int_at(row) >= 0);
}

std::vector<uint32_t> chosen(const Batch &batch, const Asked &asked) {
  Rows rows(batch.rows);
  std::iota(rows.begin(), rows.end(), 0);
  if (asked.keep) {
    if (asked.keep->size() != batch.rows) throw std::invalid_argument("keep has a byte for each row");
    keep_if([&](uint32_t row) { return (*asked.keep)[row] != 0; }, &rows);
  }
  for (const Condition &condition : asked.conditions) {
    const Column &column = *batch.columns[condition.column];
    keep_if([&](uint32_t row) { return fits(condition, column, row); }, &rows);
  }
  if (asked.ends_after) {
    const Column &ts = *batch.columns[asked.ts];
    keep_if([&](uint32_t row) { return plus(ts.int_at(row), took(batch, asked, row)) >= asked.ended; }, &rows);
  }
  return rows;
}

GroupSums group_sums(const Batch &batch, const Asked &asked) {
  const Rows rows = chosen(batch, asked);
  std::vector<uint32_t> groups(rows.size(), 0), codes;
  uint64_t count = rows.empty() ? 0 : 1;
  const Key *timed = nullptr;
  for (const Key &key : asked.keys) {
    if (key.kind == Key::Kind::kTimes) {
      timed = &key;
      continue;
    }
    const uint64_t most = codes_of(key, *batch.columns[key.column], rows, &codes);
    if (most > 1 && !rows.empty()) count = divide(codes, most, count, &groups);
  }
  GroupSums found;
  Times times(batch, asked, timed == nullptr ? Key{} : *timed);
  if (timed != nullptr) {
    times.divide(rows, &groups);
    times.share([](size_t, uint32_t, bool, double, double) {});  // makes the groups that only parts of calls are in
    count = times.groups().size();
    for (size_t group = 0; group < count; ++group) found.range.push_back(times.groups()[group].value);
  }
  found.first.assign(count, SIZE_MAX);
  found.calls.assign(count, 0);
  found.totals.assign(count, 0);
  const Column &calls = *batch.columns[asked.lines];
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t group = groups[i];
    if (found.first[group] == SIZE_MAX) found.first[group] = rows[i];
    const int64_t of_row = calls.int_at(rows[i]);
    found.calls[group] = plus(found.calls[group], of_row);
    found.totals[group] += of_row > 1 ? 1 : 0;
  }
  if (timed != nullptr) {
    times.share([&](size_t index, uint32_t group, bool, double, double) {
      if (found.first[group] == SIZE_MAX) found.first[group] = rows[index];
    });
  }
  found.figures.resize(count * asked.values.size());
  for (size_t i = 0; i < asked.values.size(); ++i) {
    add(*batch.columns[asked.values[i]], rows, groups, calls, asked.values.size(), i, &found.figures);
  }
  for (Figures &of : found.figures) of.whole = of.sum;
  if (timed != nullptr) share(batch, asked, rows, &times, &found);
  found.gathered.resize(count * asked.gathered.size());
  for (size_t i = 0; i < asked.gathered.size(); ++i) {
    gather(*batch.columns[asked.gathered[i]], rows, groups, calls, asked.gathered.size(), i, &found.gathered);
  }
  return found;
}

}  // namespace tailrace::native
