// GOTCHA: the hooks in libraries that symbol interposition can't reach.
#pragma once

namespace tailrace {

// Binds every hook in every library that is loaded and will be. Returns 0, or -1 with attach_error() set. Once is
// enough.
int attach_with_gotcha();
const char *attach_error();

}  // namespace tailrace
