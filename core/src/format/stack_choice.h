// TAILRACE_STACKS: which I/O calls are recorded with a call stack.
#pragma once

#include "base/text.h"

namespace tailrace {

struct StackChoice {
  uint64_t slower_than_ns = 0;  // 0: no call for how long it took
  uint64_t each = 0;            // one of n calls of a thread, at random; 0: none

  bool is_on() const { return slower_than_ns || each; }
};

// "off", or parts separated by commas: a duration (2ms, 500us, 1s) or a number of calls (100). False: it is none of these.
bool parse_stacks(string_view text, StackChoice &out);

}  // namespace tailrace
