// Deflate for blocks: ISA-L where its headers were found, else zlib. Raw streams; format/block.h makes the gzip frame.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

namespace tailrace {

// "isal" or "zlib".
extern const char *const kDeflateLibrary;

// The most bytes that `raw` bytes can become.
size_t deflate_bound(size_t raw);

// Bytes of working memory that deflate_block needs, zeroed or used before.
size_t deflate_work_bytes();

// One complete deflate stream. Returns its size, or 0 when it doesn't fit.
size_t deflate_block(void *work, const char *raw, size_t raw_bytes, char *out, size_t out_bytes);

uint32_t crc32_of(const char *data, size_t n);

}  // namespace tailrace
