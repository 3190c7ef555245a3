// Which functions of compiled programs are regions (TAILRACE_NATIVE_FUNCTIONS): patterns, separated by single colons, of
// names as linker/plain_names.h writes them.
//
//   solver              the function, and all in the class or name space of that name
//   mesh::*:read_row    * is any text, ? one byte
//   libmesh.so*/read_*  those of an object, by the last name of its file
//   !solver::dot        not this one, whatever else says so
#pragma once

#include "base/text.h"

namespace tailrace {

// False where one of the patterns is empty.
bool are_function_patterns(string_view patterns);
bool is_function_chosen(string_view name, string_view object, string_view patterns);

}  // namespace tailrace
