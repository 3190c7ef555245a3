// See format/deflate.h. Neither library may call malloc here: the core runs inside the application's own allocator.
#include "format/deflate.h"

#if TAILRACE_HAVE_ISAL
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#if __GLIBC_PREREQ(2, 33)
#include <sys/platform/x86.h>
#endif
#endif

namespace tailrace {
namespace {

// ISA-L's assembly returns with the upper halves of the vector registers in use, which slows down all later SSE code of
// the core and of the application.
#if defined(__x86_64__)
__attribute__((target("avx"))) void clear_upper_halves() { _mm256_zeroupper(); }
// The C library has read CPUID already. GCC's function reads it again, eight times at each process's start, and in a
// virtual machine one read can take 20 us.
bool has_avx() {
#if __GLIBC_PREREQ(2, 33)
  return x86_cpu_active(x86_cpu_AVX);
#else
  return __builtin_cpu_supports("avx");
#endif
}
void leave_vector_code() {
  if (has_avx()) clear_upper_halves();
}
#else
void leave_vector_code() {}
#endif

struct Work {
  isal_zstream stream;
  uint8_t level_buffer[ISAL_DEF_LVL1_DEFAULT];
};
}  // namespace

const char *const kDeflateLibrary = "isal";

// The library selects each function for the processor at its first call, which takes some 50 us in a virtual machine.
// Short streams, as many processes have, avoid most of these functions.
constexpr size_t kLittleBytes = 4096;

// A stored block (5 bytes) for every 64 KiB is the worst case; the rest is slack for the stream's end.
size_t deflate_bound(size_t raw) { return raw + raw / 1024 + 4096; }
size_t deflate_work_bytes() { return sizeof(Work); }

size_t deflate_block(void *work, const char *raw, size_t raw_bytes, char *out, size_t out_bytes) {
  auto *w = static_cast<Work *>(work);
  isal_deflate_stateless_init(&w->stream);
  w->stream.level = raw_bytes <= kLittleBytes ? 0 : 1;
  w->stream.level_buf = w->level_buffer;
  w->stream.level_buf_size = sizeof w->level_buffer;
  w->stream.end_of_stream = 1;
  w->stream.flush = NO_FLUSH;
  w->stream.gzip_flag = IGZIP_DEFLATE;
  w->stream.next_in = reinterpret_cast<uint8_t *>(const_cast<char *>(raw));
  w->stream.avail_in = static_cast<uint32_t>(raw_bytes);
  w->stream.next_out = reinterpret_cast<uint8_t *>(out);
  w->stream.avail_out = static_cast<uint32_t>(out_bytes);
  int status = isal_deflate_stateless(&w->stream);
  leave_vector_code();
  if (status != COMP_OK) return 0;
  return w->stream.total_out;
}

uint32_t crc32_of(const char *data, size_t n) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(data);
  if (n <= kLittleBytes) return crc32_gzip_refl_base(0, const_cast<unsigned char *>(bytes), n);
  uint32_t crc = crc32_gzip_refl(0, bytes, n);
  leave_vector_code();
  return crc;
}

}  // namespace tailrace

#else
#include <zlib.h>

namespace tailrace {
namespace {

constexpr size_t kArenaBytes = 512 * 1024;
struct Work {
  z_stream stream;
  size_t used;
  alignas(16) char arena[kArenaBytes];
};

void *take(void *opaque, unsigned items, unsigned size) {
  auto *w = static_cast<Work *>(opaque);
  size_t n = (static_cast<size_t>(items) * size + 15) & ~static_cast<size_t>(15);
  if (w->used + n > kArenaBytes) return nullptr;
  void *p = w->arena + w->used;
  w->used += n;
  return p;
}
void give_back(void *, void *) {}

}  // namespace

const char *const kDeflateLibrary = "zlib";

size_t deflate_bound(size_t raw) { return raw + raw / 1000 + 4096; }
size_t deflate_work_bytes() { return sizeof(Work); }

size_t deflate_block(void *work, const char *raw, size_t raw_bytes, char *out, size_t out_bytes) {
  auto *w = static_cast<Work *>(work);
  w->used = 0;
  memset(&w->stream, 0, sizeof w->stream);
  w->stream.zalloc = take;
  w->stream.zfree = give_back;
  w->stream.opaque = w;
  if (deflateInit2(&w->stream, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
  w->stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(raw));
  w->stream.avail_in = static_cast<uInt>(raw_bytes);
  w->stream.next_out = reinterpret_cast<Bytef *>(out);
  w->stream.avail_out = static_cast<uInt>(out_bytes);
  if (deflate(&w->stream, Z_FINISH) != Z_STREAM_END) return 0;
  return w->stream.total_out;
}

uint32_t crc32_of(const char *data, size_t n) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef *>(data), static_cast<uInt>(n)));
}

}  // namespace tailrace
#endif
