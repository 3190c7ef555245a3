// See patterns.h.
#include "patterns.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "format/journal.h"
#include "saturating.h"

namespace tailrace::native {

namespace {

// As analyzer/edges/event_fold.py clamps the columns of events.
constexpr int64_t kMostCalls = int64_t{1} << 31, kMostBits = 63;

int64_t binary_digits(int64_t value) {
  int64_t bits = 0;
  for (; value > 0; value >>= 1) ++bits;
  return bits;
}

// The least number that has the first digits of this one.
int64_t range_of(int64_t value) {
  const int64_t more = binary_digits(value) - kLengthDigits;
  return more > 0 ? value >> more << more : value;
}

// Two codes as one number, and back.
int64_t packed(FunctionName name) { return static_cast<int64_t>(name.cat) << 32 | name.name; }
int64_t cat_of(int64_t name) { return name >> 32; }
int64_t name_of(int64_t name) { return name & UINT32_MAX; }

void add_to(int64_t *sum, int64_t value) { *sum = plus(*sum, value); }

template <size_t Columns>
void put(Growing<int64_t> (&columns)[Columns], const int64_t (&values)[Columns]) {
  for (size_t i = 0; i < Columns; ++i) columns[i].push_back(values[i]);
}

}  // namespace

void PatternFolder::add(int64_t who, int64_t file, int64_t direction, int64_t offset, int64_t bytes, int64_t calls,
                        int64_t block) {
  if (calls <= 0) return;
  const uint32_t number = pattern_of(who, file, direction);
  Pattern &pattern = patterns_[number];
  add_to(&pattern.calls, calls);
  add_size(number, binary_digits(bytes / calls), calls);
  if (bytes == 0) return;  // at the end of the file
  if (offset < 0) {
    pattern.from = pattern.to = -1;
    add_to(&pattern.unlocated, calls);
    return;
  }
  add_to(&pattern.consecutive, calls - 1);
  if (block > 0) {
    const bool crosses = offset != pattern.to && bytes >= calls && touches_block_more(offset, bytes / calls, block);
    place(&pattern, calls, crosses ? 1 : 0, block);
  }
  if (offset == pattern.to) ++pattern.consecutive;
  if (offset < pattern.to) ++pattern.backward;
  go_on(&pattern, {offset, plus(offset, bytes), 0});
}

// To an access that begins and ends there: whether it is as far from the one before as that one from its own.
void PatternFolder::go_on(Pattern *pattern, const Interval &access) {
  const int64_t step = pattern->from >= 0 ? minus(access.start, pattern->from) : 0;
  if (access.start != pattern->to && step != 0 && step == pattern->step) ++pattern->strided;
  pattern->from = access.start;
  pattern->to = access.end;
  pattern->step = step;
}

void PatternFolder::add_totals(int64_t who, int64_t file, int64_t direction, int64_t calls, int64_t followed,
                               std::string_view sizes) {
  const uint32_t number = pattern_of(who, file, direction);
  add_to(&patterns_[number].calls, calls);
  add_to(&patterns_[number].consecutive, std::clamp<int64_t>(followed, 0, calls));
  line_begins_ = true;
  if (sizes.empty()) return;
  const char *at = sizes.data(), *end = at + sizes.size();
  const auto refuse = [] { throw std::invalid_argument("a histogram of sizes is no list of pairs of numbers"); };
  if (*at != '[' || end[-1] != ']') refuse();
  while (++at < end - 1) {
    int64_t pair[2];
    for (size_t i = 0; i < 2; ++i) {
      if (i == 1 && *at++ != ',') refuse();
      const auto [next, fault] = std::from_chars(at, end, pair[i]);
      if (fault != std::errc()) refuse();
      at = next;
    }
    add_size(number, std::clamp<int64_t>(pair[0], 0, kMostBits), std::clamp<int64_t>(pair[1], 0, kMostCalls));
    if (*at != ',' && at != end - 1) refuse();
  }
}

void PatternFolder::add_placed(int64_t who, int64_t file, int64_t direction, int64_t placed, int64_t unaligned,
                               int64_t block) {
  if (placed > 0 && block > 0) place(&patterns_[pattern_of(who, file, direction)], placed, unaligned, block);
}

void PatternFolder::place(Pattern *pattern, int64_t calls, int64_t unaligned, int64_t block) {
  add_to(&pattern->placed, calls);
  add_to(&pattern->unaligned, unaligned);
  pattern->least_block = std::min(pattern->least_block, block);
  pattern->most_block = std::max(pattern->most_block, block);
}

void PatternFolder::add_piece(int64_t who, int64_t file, int64_t direction, const Piece &piece) {
  Pattern &pattern = patterns_[pattern_of(who, file, direction)];
  add_to(&pattern.backward, piece.backward);
  // Of a piece with calls of both kinds it is not known how many there are, nor where they were.
  if (piece.loose > 0) {
    add_to(&pattern.unlocated, piece.calls);
    pattern.from = pattern.to = -1;
    return;
  }
  if (piece.from < 0) return;  // at the end of the file
  if (piece.from < pattern.to) ++pattern.backward;
  // Within a line `followed` has told it.
  if (line_begins_ && piece.from == pattern.to) ++pattern.consecutive;
  line_begins_ = false;
  // With a range for each call, these tell the order of all.
  if (piece.backward == 0 && static_cast<int64_t>(piece.ranges.size()) == piece.calls) {
    for (const Interval &range : piece.ranges) {
      if (range.start < range.end) go_on(&pattern, range);
    }
  } else {
    pattern.from = -1;
    pattern.step = 0;
  }
  pattern.to = piece.to;
}

void PatternFolder::add_unmoving(int64_t who, int64_t file, int64_t kind, int64_t opens, int64_t seeks, int64_t ahead) {
  Pattern &pattern = patterns_[pattern_of(who, file, kind)];
  add_to(&pattern.opens, opens);
  add_to(&pattern.seeks, seeks);
  add_to(&pattern.ahead, ahead);
}

void PatternFolder::add_function(int64_t who, int64_t kind, FunctionName name, int64_t calls, int64_t failed,
                                 int64_t bytes, int64_t time_ns) {
  const uint32_t number = function_keys_.number({who, kind, packed(name)});
  if (number == functions_.size()) functions_.push_back({});
  Function &function = functions_[number];
  add_to(&function.calls, calls);
  add_to(&function.failed, failed);
  add_to(&function.bytes, bytes);
  add_to(&function.time_ns, time_ns);
}

void PatternFolder::add_length(int64_t kind, FunctionName name, int64_t bytes, int64_t calls) {
  const uint32_t number = length_keys_.number({kind, packed(name), range_of(bytes)});
  if (number == lengths_.size()) lengths_.push_back({0, bytes, bytes});
  Length &length = lengths_[number];
  add_to(&length.calls, calls);
  length.least = std::min(length.least, bytes);
  length.most = std::max(length.most, bytes);
}

PatternTables PatternFolder::take() && {
  PatternTables made;
  for (uint32_t i = 0; i < patterns_.size(); ++i) {
    const Key &key = pattern_keys_[i];
    const Pattern &pattern = patterns_[i];
    put(made.patterns, {key.a, key.b, key.c, pattern.calls, pattern.consecutive, pattern.strided, pattern.backward,
                        pattern.unlocated, pattern.placed, pattern.unaligned, pattern.opens, pattern.seeks,
                        pattern.ahead, pattern.least_block, pattern.most_block});
  }
  for (uint32_t i = 0; i < size_calls_.size(); ++i) {
    const Key &of = pattern_keys_[static_cast<size_t>(size_keys_[i].a)];
    put(made.sizes, {of.a, of.b, of.c, size_keys_[i].b, size_calls_[i]});
  }
  for (uint32_t i = 0; i < functions_.size(); ++i) {
    const Key &key = function_keys_[i];
    const Function &function = functions_[i];
    put(made.functions, {key.a, key.b, cat_of(key.c), name_of(key.c), function.calls, function.failed, function.bytes,
                         function.time_ns});
  }
  for (uint32_t i = 0; i < lengths_.size(); ++i) {
    const Key &key = length_keys_[i];
    const Length &length = lengths_[i];
    put(made.lengths, {key.a, cat_of(key.b), name_of(key.b), key.c, length.calls, length.least, length.most});
  }
  return made;
}

uint32_t PatternFolder::pattern_of(int64_t who, int64_t file, int64_t direction) {
  const Key key{who, file, direction};
  if (pattern_keys_.size() > 0 && pattern_keys_[last_pattern_] == key) return last_pattern_;
  last_pattern_ = pattern_keys_.number(key);
  if (last_pattern_ == patterns_.size()) patterns_.push_back({});
  return last_pattern_;
}

void PatternFolder::add_size(uint32_t pattern, int64_t bits, int64_t calls) {
  const uint32_t number = size_keys_.number({pattern, bits, 0});
  if (number == size_calls_.size()) size_calls_.push_back(0);
  add_to(&size_calls_[number], calls);
}

}  // namespace tailrace::native
