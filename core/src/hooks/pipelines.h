// Streams that popen made. fclose must treat them as pclose does (glibc's does), so both call this.
#pragma once

#include <stdio.h>

#include "format/functions.h"

namespace tailrace {

// If `stream` is an open stream that the hook of popen made: closes it, waits for its program, records that as `fn`,
// and returns true with the wait status (or -1).
bool close_pipeline(FILE *stream, Fn fn, int &status);

}  // namespace tailrace
