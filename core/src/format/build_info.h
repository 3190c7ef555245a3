// What was compiled in, for `tailrace info --build` and tailrace_build_info().
#pragma once

namespace tailrace {

// A JSON object; made at the first call.
const char *build_info();

}  // namespace tailrace
