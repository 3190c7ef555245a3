// See inflate.h. Lengths pass through 32-bit fields of both libraries, so a block of 4 GiB is refused here.
#include "inflate.h"

#include <limits>

#if defined(TAILRACE_HAVE_ISAL)
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

namespace tailrace::native {

namespace {
constexpr size_t kMaxBytes = std::numeric_limits<uint32_t>::max();
}

#if defined(TAILRACE_HAVE_ISAL)

// ISA-L's assembly returns with the upper halves of the vector registers in use. Every later SSE instruction then
// depends on them, which doubled the parser's time.
void clean_vector_state() {
#if defined(__x86_64__)
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) __asm__ volatile("vzeroupper" ::: "memory");
#endif
}

bool inflate_exact(const uint8_t *deflated, size_t deflated_bytes, uint8_t *out, size_t raw_bytes) {
  if (deflated_bytes > kMaxBytes || raw_bytes > kMaxBytes) return false;
  inflate_state state;
  isal_inflate_init(&state);
  state.next_in = const_cast<uint8_t *>(deflated);
  state.avail_in = static_cast<uint32_t>(deflated_bytes);
  state.next_out = out;
  state.avail_out = static_cast<uint32_t>(raw_bytes);
  const int status = isal_inflate_stateless(&state);
  clean_vector_state();
  return status == ISAL_DECOMP_OK && state.block_state == ISAL_BLOCK_FINISH && state.avail_out == 0;
}

uint32_t crc32_of(const uint8_t *data, size_t bytes) {
  const uint32_t crc = crc32_gzip_refl(0, data, bytes);
  clean_vector_state();
  return crc;
}

#else

bool inflate_exact(const uint8_t *deflated, size_t deflated_bytes, uint8_t *out, size_t raw_bytes) {
  if (deflated_bytes > kMaxBytes || raw_bytes > kMaxBytes) return false;
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  stream.next_in = const_cast<uint8_t *>(deflated);
  stream.avail_in = static_cast<uInt>(deflated_bytes);
  stream.next_out = out;
  stream.avail_out = static_cast<uInt>(raw_bytes);
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole;
}

uint32_t crc32_of(const uint8_t *data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), data, bytes));
}

#endif

}  // namespace tailrace::native
