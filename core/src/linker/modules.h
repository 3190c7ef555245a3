// Which loaded object an address lies in, in a hook: without the dynamic linker's lock where glibc has _dl_find_object
// (2.35), else by dl_iterate_phdr, which C++ exceptions call in the same places.
#pragma once

#include "base/text.h"

namespace tailrace {

struct Module {
  uintptr_t begin;         // where it is mapped; 0: no object
  uintptr_t base;          // what its own addresses are relative to
  uintptr_t frame_header;  // its .eh_frame_hdr; 0: it has none
  const char *name;        // "" for the program; the dynamic linker's own text
};

// Where the dynamic linker may be called; once, before find_module().
void find_module_functions();
Module find_module(uintptr_t address);

// What tells the file that was mapped from another one of its name: its build ID's first 16 hex digits, else "t" and
// the hex nanoseconds of its modification time, else nothing. `path`: terminated by a zero.
void write_module_mark(Writer &out, const Module &module, const char *path, int pid);

}  // namespace tailrace
