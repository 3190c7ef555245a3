// The lines of another tracer's file, plain or gzipped.
//
// Invariants: memory does not go by the file: a piece is read, inflated and given line by line. A line is followed by a
// newline and kPadBytes readable bytes (json.h). A file that inflates to more than kMostRatio times its size is
// refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inflate.h"
#include "trace_file.h"

namespace tailrace::native {

class ForeignLines {
 public:
  // Throws TraceFault when the file can't be read.
  explicit ForeignLines(const std::string &path);

  // The next line, without its newline; false at the end. Of a line that is too long comes the first part.
  bool next(std::string_view *line);
  // After the end: the gzip stream is damaged or ends early.
  bool torn() const { return torn_; }

 private:
  bool fill();
  size_t read_piece();
  size_t inflate_piece();

  TraceFile file_;
  uint64_t offset_ = 0, size_, made_ = 0;
  bool is_gzip_ = false, torn_ = false, ended_ = false, skipping_ = false;
  GzipInflater inflater_;
  std::vector<uint8_t> input_;
  std::vector<char> text_;
  size_t begin_ = 0, end_ = 0;  // of what is not given yet
};

}  // namespace tailrace::native
