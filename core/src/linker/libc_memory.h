// See linker/libc_memory.cc.
#pragma once

namespace tailrace {

// A function of libc's that is no hook, whoever replaces it; null where it has none of the name. (linker/dynamic.cc)
void *libc_symbol(const char *symbol);

// From here on memory is copied and filled by libc's own functions.
void use_libc_memory();

}  // namespace tailrace
