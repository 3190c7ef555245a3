// The checksum of a gzip member's text (RFC 1952), by the processor's carry-less multiplication where it has one.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tailrace {

uint32_t crc32_of(const char *data, size_t n);

}  // namespace tailrace
