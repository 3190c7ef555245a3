// See pieces.h.
#include "pieces.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tailrace::native {

namespace {

// As analyzer/edges/event_fold.py clamps the columns of events.
constexpr int64_t kMostNs = int64_t{1} << 60, kMostBytes = int64_t{1} << 50, kMostCalls = int64_t{1} << 31,
                  kMostOffset = int64_t{1} << 62;

}  // namespace

PieceReader::PieceReader(std::string_view text, int64_t begin_ns)
    : p_(text.data()), end_(text.data() + text.size()), time_ns_(begin_ns) {
  expect('[');
  if (take(']')) return;
  unit_ = number(1, kMostBytes);
}

bool PieceReader::next(Piece *piece) {
  if (p_ == end_) return false;
  if (take(']')) {
    if (p_ != end_) throw std::invalid_argument("text follows a list of pieces");
    return false;
  }
  expect(',');
  expect('[');
  piece->first_ns = plus(time_ns_, number(0, kMostNs));
  expect(',');
  piece->last_ns = plus(piece->first_ns, number(0, kMostNs));
  time_ns_ = piece->last_ns;
  expect(',');
  piece->calls = number(0, kMostCalls);
  expect(',');
  piece->bytes = number(0, kMostBytes);
  expect(',');
  piece->busy_ns = number(0, kMostNs);
  piece->ranges.clear();
  piece->backward = piece->loose = 0;
  if (take(',')) {
    read_ranges(piece);
  } else {
    piece->ranges.push_back({at_, plus(at_, piece->bytes), piece->bytes});
  }
  const bool known = !piece->ranges.empty(), moved = known && piece->bytes > 0;
  piece->from = moved ? piece->ranges.front().start : -1;
  piece->to = moved ? piece->ranges.back().end : -1;
  if (!known) piece->loose = piece->bytes;
  if (take(',')) {
    piece->from = number(-1, kMostOffset);
    expect(',');
    piece->to = number(-1, kMostOffset);
    expect(',');
    piece->backward = number(0, kMostCalls);
    expect(',');
    piece->loose = number(0, kMostBytes);
  }
  expect(']');
  if (piece->to >= 0) at_ = piece->to;
  return true;
}

void PieceReader::read_ranges(Piece *piece) {
  expect('[');
  if (take(']')) return;
  int64_t at = 0;
  do {
    const int64_t gap = number(0, kMostOffset);
    expect(',');
    const int64_t length = number(0, kMostOffset);
    const int64_t start = std::min(plus(at, times(gap, unit_)), kMostOffset);
    at = std::min(plus(start, times(length, unit_)), kMostOffset);
    piece->ranges.push_back({start, at, at - start});
  } while (take(','));
  expect(']');
}

void PieceReader::expect(char c) {
  if (!take(c)) throw std::invalid_argument(std::string("a list of pieces lacks a ") + c);
}

bool PieceReader::take(char c) {
  if (p_ == end_ || *p_ != c) return false;
  ++p_;
  return true;
}

int64_t PieceReader::number(int64_t least, int64_t most) {
  const bool negative = take('-');
  if (p_ == end_ || *p_ < '0' || *p_ > '9') throw std::invalid_argument("a list of pieces lacks a number");
  int64_t value = 0;
  for (; p_ != end_ && *p_ >= '0' && *p_ <= '9'; ++p_) value = plus(times(value, 10), *p_ - '0');
  return std::clamp(negative ? -value : value, least, most);
}

}  // namespace tailrace::native
