// What a line leaves out because its other fields tell it (docs/trace-format.md, "What a line leaves out").
#pragma once

#include <cstdint>
#include <vector>

#include "format/functions.h"
#include "line_keys.h"

namespace tailrace::native {

class Implied {
 public:
  explicit Implied(const LineKeys::Special &columns) : columns_(columns) {}

  bool wanted() const { return columns_.ret != nullptr || columns_.count != nullptr || columns_.dir != nullptr; }

  // Sets the values of a row that its line left out. `seen`: what the line has; `size`: that argument's value.
  void complete(size_t row, uint16_t seen, int64_t size) {
    if ((seen & (kHasRet | kGivesErrno)) == kGivesErrno && columns_.ret != nullptr) columns_.ret->set_int(row, -1);
    if ((seen & kGivesSize) == 0) return;
    if ((seen & kGivesCalls) == 0) {
      if ((seen & (kHasRet | kGivesErrno)) == 0 && columns_.ret != nullptr) columns_.ret->set_int(row, size);
      if ((seen & kHasCount) == 0 && columns_.count != nullptr) columns_.count->set_int(row, size);
    }
    if ((seen & kHasDir) == 0 && columns_.dir != nullptr) {
      columns_.dir->set_index(row, direction_of(columns_.name->index_at(row)));
    }
  }

 private:
  // The index in the column `dir` of the direction that a name tells, by the name's index; -1 is none.
  int32_t direction_of(int32_t name) {
    constexpr int32_t kNotLooked = -2;
    const auto at = static_cast<size_t>(name);
    const Dictionary &names = columns_.name->dictionary();
    if (at >= directions_.size()) directions_.resize(names.size(), kNotLooked);
    if (directions_[at] == kNotLooked) {
      const Direction direction = told_direction(names.at(name));
      directions_[at] =
          direction == Direction::N ? -1 : columns_.dir->dictionary().index_of(direction == Direction::W ? "w" : "r");
    }
    return directions_[at];
  }

  const LineKeys::Special columns_;
  std::vector<int32_t> directions_;
};

}  // namespace tailrace::native
