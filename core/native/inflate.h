// Inflates one deflate stream of known size, and computes checksums. ISA-L where it was found, else zlib; both return
// the same bytes, and the rest of the reader does not depend on which one it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tailrace::native {

// Inflates exactly `raw_bytes` from a raw deflate stream (no gzip or zlib frame) into `out`. False when the stream is
// damaged, ends early, or holds more.
bool inflate_exact(const uint8_t *deflated, size_t deflated_bytes, uint8_t *out, size_t raw_bytes);

// CRC-32 of RFC 1952.
uint32_t crc32_of(const uint8_t *data, size_t bytes);

}  // namespace tailrace::native
