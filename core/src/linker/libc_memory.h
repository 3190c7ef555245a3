// See linker/libc_memory.cc.
#pragma once

namespace tailrace {

// From here on memory is copied and filled by libc's own functions.
void use_libc_memory();

}  // namespace tailrace
