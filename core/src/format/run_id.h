// The id of the run that a trace file belongs to: `run_id` of the run.json beside its folder. Each block has it, so
// that a file of another run is found to be one.
//
// It is read where a block is written, not handed down with the settings: so it is that of the directory that the block
// goes to, whoever made that and whenever (a process may go on in another run), and no launcher or plugin has to know
// of it.
#pragma once

#include "base/text.h"

namespace tailrace {

constexpr size_t kRunIdBytes = 32;  // hexadecimal digits

// In zeroed memory it is one that nothing was found for yet.
class RunId {
 public:
  // Of the run with this trace file: read anew only for another directory, or where it was not found. `room`: working
  // memory. Returns the bytes that were read.
  uint64_t find(string_view trace_file, char *room, size_t room_bytes);
  // Empty where there is none, as in a run without a run.json.
  string_view text() const { return {text_, bytes_}; }

 private:
  uint64_t directory_;  // a hash of its path
  size_t bytes_;
  char text_[kRunIdBytes];
};

// The value of the first "run_id" in the begin of a run.json; empty: none.
string_view run_id_in(string_view json);

}  // namespace tailrace
