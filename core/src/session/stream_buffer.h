// The bytes in the buffer of a stdio stream, read from glibc's own fields, for the hooks of streams (hooks/stream.h)
// and the ledger. No function of libc returns them without side effects.
#pragma once

#include <stdint.h>
#include <stdio.h>

namespace tailrace {

// Read ahead and not consumed.
inline int64_t unread_bytes(const FILE *s) { return s->_IO_read_end - s->_IO_read_ptr; }
// Not flushed yet.
inline int64_t unwritten_bytes(const FILE *s) { return s->_IO_write_ptr - s->_IO_write_base; }

}  // namespace tailrace
