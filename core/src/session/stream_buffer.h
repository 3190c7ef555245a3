// What lies in the buffer of a stdio stream, read from glibc's own fields: the streams' hooks (hooks/stream.h) and the
// ledger need it, and no function of libc tells it without side effects.
#pragma once

#include <stdint.h>
#include <stdio.h>

namespace tailrace {

// Read ahead and not consumed.
inline int64_t unread_bytes(const FILE *s) { return s->_IO_read_end - s->_IO_read_ptr; }
// Not flushed yet.
inline int64_t unwritten_bytes(const FILE *s) { return s->_IO_write_ptr - s->_IO_write_base; }

}  // namespace tailrace
