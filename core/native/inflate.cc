// See inflate.h. Lengths pass through 32-bit fields of both libraries, so a block of 4 GiB is refused here.
#include "inflate.h"

#include <limits>
#include <new>
#include <stdexcept>
#include <vector>

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

size_t deflate_bound(size_t raw_bytes) { return raw_bytes + raw_bytes / 16 + 4096; }

size_t deflate_fast(const uint8_t *raw, size_t raw_bytes, uint8_t *out, size_t out_bytes) {
  thread_local std::vector<uint8_t> memory(ISAL_DEF_LVL1_DEFAULT);
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  stream.level = 1;
  stream.level_buf = memory.data();
  stream.level_buf_size = static_cast<uint32_t>(memory.size());
  stream.end_of_stream = 1;
  stream.flush = NO_FLUSH;
  stream.gzip_flag = IGZIP_DEFLATE;
  stream.next_in = const_cast<uint8_t *>(raw);
  stream.avail_in = static_cast<uint32_t>(raw_bytes);
  stream.next_out = out;
  stream.avail_out = static_cast<uint32_t>(out_bytes);
  const int status = isal_deflate_stateless(&stream);
  clean_vector_state();
  if (status != COMP_OK) throw std::logic_error("deflate_bound is too small");
  return out_bytes - stream.avail_out;
}

struct GzipInflater::State {
  inflate_state stream;
  bool started = false;  // within a member
  bool damaged = false;

  void begin() {
    const auto *next = stream.next_in;
    const uint32_t left = stream.avail_in;
    isal_inflate_reset(&stream);
    stream.crc_flag = ISAL_GZIP;
    stream.next_in = const_cast<uint8_t *>(next);
    stream.avail_in = left;
  }
};

GzipInflater::GzipInflater() : state_(std::make_unique<State>()) {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = ISAL_GZIP;
  state_->stream.avail_in = 0;
}
GzipInflater::~GzipInflater() = default;

void GzipInflater::feed(const uint8_t *data, size_t bytes) {
  state_->stream.next_in = const_cast<uint8_t *>(data);
  state_->stream.avail_in = static_cast<uint32_t>(bytes);
}

bool GzipInflater::between_members() const { return !state_->started; }

GzipInflater::Status GzipInflater::next(uint8_t *out, size_t out_bytes, size_t *made) {
  inflate_state &stream = state_->stream;
  *made = 0;
  stream.next_out = out;
  stream.avail_out = static_cast<uint32_t>(out_bytes);
  while (stream.avail_out > 0 && !state_->damaged) {
    if (!state_->started) {
      // Padding between members and behind the last one.
      while (stream.avail_in > 0 && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
      if (stream.avail_in == 0) break;
      state_->started = true;
    }
    const uint32_t in_before = stream.avail_in, out_before = stream.avail_out;
    const int status = isal_inflate(&stream);
    clean_vector_state();
    *made = out_bytes - stream.avail_out;
    if (status < 0) {
      state_->damaged = true;
      break;
    }
    if (stream.block_state == ISAL_BLOCK_FINISH) {
      state_->started = false;
      state_->begin();
      continue;
    }
    if (stream.avail_in == in_before && stream.avail_out == out_before) break;
  }
  if (*made > 0) return Status::kHasOutput;
  return state_->damaged ? Status::kDamaged : Status::kNeedsInput;
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

size_t deflate_bound(size_t raw_bytes) { return compressBound(static_cast<uLong>(raw_bytes)) + 64; }

size_t deflate_fast(const uint8_t *raw, size_t raw_bytes, uint8_t *out, size_t out_bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  stream.next_in = const_cast<uint8_t *>(raw);
  stream.avail_in = static_cast<uInt>(raw_bytes);
  stream.next_out = out;
  stream.avail_out = static_cast<uInt>(out_bytes);
  const int status = deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::logic_error("deflate_bound is too small");
  return out_bytes - stream.avail_out;
}

struct GzipInflater::State {
  z_stream stream = {};
  bool started = false;  // within a member
  bool damaged = false;
};

GzipInflater::GzipInflater() : state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
}
GzipInflater::~GzipInflater() { inflateEnd(&state_->stream); }

void GzipInflater::feed(const uint8_t *data, size_t bytes) {
  state_->stream.next_in = const_cast<uint8_t *>(data);
  state_->stream.avail_in = static_cast<uInt>(bytes);
}

bool GzipInflater::between_members() const { return !state_->started; }

GzipInflater::Status GzipInflater::next(uint8_t *out, size_t out_bytes, size_t *made) {
  z_stream &stream = state_->stream;
  *made = 0;
  stream.next_out = out;
  stream.avail_out = static_cast<uInt>(out_bytes);
  while (stream.avail_out > 0 && !state_->damaged) {
    if (!state_->started) {
      // Padding between members and behind the last one.
      while (stream.avail_in > 0 && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
      if (stream.avail_in == 0) break;
      state_->started = true;
    }
    const int status = inflate(&stream, Z_NO_FLUSH);
    *made = out_bytes - stream.avail_out;
    if (status == Z_STREAM_END) {
      state_->started = false;
      inflateReset(&stream);
      continue;
    }
    if (status == Z_BUF_ERROR) break;
    if (status != Z_OK) {
      state_->damaged = true;
      break;
    }
  }
  if (*made > 0) return Status::kHasOutput;
  return state_->damaged ? Status::kDamaged : Status::kNeedsInput;
}

uint32_t crc32_of(const uint8_t *data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), data, bytes));
}

#endif

}  // namespace tailrace::native
