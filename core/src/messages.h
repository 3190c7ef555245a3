// A message of libc's own that is being written when the process ends.
#pragma once

namespace tailrace {

// Before the account of the process: what a call that never came back has written.
void finish_message();

}  // namespace tailrace
