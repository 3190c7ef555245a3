// The process's own context: the tags it was started with, and those of its managers' variables.
#pragma once

#include "base/text.h"

namespace tailrace {

// Makes it from `found`, what the variables give. Call with the table lock held, or before any thread runs. Without
// memory the context of before stays; false where there is none.
bool make_root_context(string_view found);

// After the program has changed a manager's variable: makes it again. Threads in a context of their own stay there.
void renew_root_context();

}  // namespace tailrace
