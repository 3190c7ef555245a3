// Blocks of JSON lines -> columns.
//
// The writer repeats the same keys in the same order, so the parser learns them: a tree whose edges are the literal
// bytes between one value's end and the next value's start (`,"pid":`), each with the use of the value that follows. On
// a learned path a key costs one comparison, and a string that equals the last one on its edge costs another. An
// unknown literal is tokenized in full and becomes a new edge. So any key order, blank and escape is read correctly:
// the tree is only a cache.
//
// Invariants: a line that is no event leaves nothing in the columns. A block yields exactly the lines and events that
// its header promises, else TraceFault.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "columns.h"
#include "json.h"
#include "mounts.h"
#include "trace_file.h"

namespace tailrace::native {

class Parser {
 public:
  // `columns`: names of kColumns or "tag.<key>"; nullptr takes all of kColumns and every tag that occurs.
  // `ends`: a copy from one file to another is two rows, its ends, with the column `dir` among `columns`: what was
  // read, and after it what was written, which is no call of its own (`lines` is 0). Each has the other in path2, file2
  // and offset2. Throws std::invalid_argument on a name that is neither.
  Parser(const std::vector<std::string> *columns, size_t capacity, const Mounts &mounts, bool ends);
  ~Parser();

  // Adds the events of one block. `text` ends with a newline, and kPadBytes follow it. Throws JsonError, which names
  // the line.
  void block(std::string_view text, const BlockHeader &header);

  // The columns in the requested order. Ends the use of the parser.
  Batch finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tailrace::native
