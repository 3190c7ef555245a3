// The time zone, which libc reads at the first call that needs it.
#pragma once

#include "hooks/libc/libc_call.h"

namespace tailrace {

// Taken by the first call that always needs the time zone.
extern FirstTimes g_time_zone;
// Whether a call that needs the time zone only sometimes may be the one that reads it.
bool may_need_time_zone();

}  // namespace tailrace
