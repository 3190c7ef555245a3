// GOTCHA: the hooks in libraries that symbol interposition can't reach.
#pragma once

namespace tailrace {

// Binds every hook in every loaded and later library. Returns 0, or -1 with attach_error() set. A second call does
// nothing. The calling thread must be one that records (enter()).
int attach_with_gotcha();
const char *attach_error();

}  // namespace tailrace
