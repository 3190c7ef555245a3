// The pieces of a line of totals (docs/trace-format.md, "Totals"): access bursts that the writer has folded already.
//
//     "pieces":[4096,[0,81234,400,1638400,40210],[15023,700,2,8192,650,[1,1,7,1]]]
//               unit  gap span calls bytes   busy                      ranges
//
// Invariants: numbers of a damaged line are clamped, so that sums of them don't wrap around.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "intervals.h"

namespace tailrace::native {

// One piece; times in ns since the epoch. `from` and `to`: where its first access began and its last one ended, -1
// where no offset is known.
struct Piece {
  int64_t first_ns = 0, last_ns = 0;
  int64_t calls = 0, bytes = 0, busy_ns = 0;
  int64_t from = -1, to = -1, backward = 0, loose = 0;
  std::vector<Interval> ranges;
};

// Reads the pieces of one line one after another.
class PieceReader {
 public:
  // `text` is a list of whole numbers and lists of them, without blanks; `begin_ns`: the line's time.
  PieceReader(std::string_view text, int64_t begin_ns);

  // The next piece; false at the end. Throws std::invalid_argument where the text is no list of pieces.
  bool next(Piece *piece);

 private:
  void expect(char c);
  bool take(char c);
  int64_t number(int64_t least, int64_t most);
  void read_ranges(Piece *piece);

  const char *p_;
  const char *end_;
  int64_t unit_ = 1;
  int64_t time_ns_;
  int64_t at_ = 0;  // where the last access at a known offset ended
};

}  // namespace tailrace::native
