// Inflates deflate streams and gzip files, deflates, and computes checksums. ISA-L where it was found, else zlib; both
// return the same bytes, and the rest of the reader does not depend on which one it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tailrace::native {

// Inflates exactly `raw_bytes` from a raw deflate stream (no gzip or zlib frame) into `out`. False when the stream is
// damaged, ends early, or holds more.
bool inflate_exact(const uint8_t *deflated, size_t deflated_bytes, uint8_t *out, size_t raw_bytes);

// Deflates into `out`, which has deflate_bound(raw_bytes) bytes: quickly rather than small. Returns the stream's size.
size_t deflate_fast(const uint8_t *raw, size_t raw_bytes, uint8_t *out, size_t out_bytes);
size_t deflate_bound(size_t raw_bytes);

// Inflates a gzip file of any number of members, a piece at a time.
class GzipInflater {
 public:
  GzipInflater();
  ~GzipInflater();
  enum class Status { kNeedsInput, kHasOutput, kDamaged };
  // Gives the next piece of the file; the one before must have been used up (kNeedsInput).
  void feed(const uint8_t *data, size_t bytes);
  // Inflates into `out`, and sets how many bytes there are.
  Status next(uint8_t *out, size_t out_bytes, size_t *made);
  // Whether the file may end here: behind a whole member.
  bool between_members() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// CRC-32 of RFC 1952.
uint32_t crc32_of(const uint8_t *data, size_t bytes);

}  // namespace tailrace::native
