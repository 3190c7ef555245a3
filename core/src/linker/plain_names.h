// The name of a function as its author wrote it, from its symbol, without parameters and template arguments:
//
//   _ZN4mesh6Reader4nextIiEEvi   mesh::Reader::next     C++ (Itanium C++ ABI, "External Names")
//   __solver_MOD_step            solver::step           a procedure of a Fortran module (gfortran)
//   read_row.constprop.0         read_row               a copy that the compiler has made
//
// Invariants: no allocation, no lock, a bounded stack. A symbol that is not understood is written as it is. The C++
// library's own __cxa_demangle calls malloc, which may be the function that is looked up.
#pragma once

#include "base/text.h"

namespace tailrace {

void write_plain_name(string_view symbol, Writer &out);

}  // namespace tailrace
