// See format/crc32.h. ISA-L and zlib have the same; with them each process would load a library for it at its start.
#include "format/crc32.h"

#include <features.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#if __GLIBC_PREREQ(2, 33)
#include <sys/platform/x86.h>
#else
#include <cpuid.h>
#endif
#endif

namespace tailrace {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;

// Eight bytes a step: table k is what a byte contributes that k more bytes follow.
struct Tables {
  uint32_t of[8][256];
};
constexpr Tables make_tables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    t.of[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (int k = 1; k < 8; ++k) t.of[k][i] = t.of[k - 1][i] >> 8 ^ t.of[0][t.of[k - 1][i] & 0xFF];
  }
  return t;
}
constexpr Tables kTables = make_tables();

uint32_t by_tables(uint32_t crc, const unsigned char *p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    const uint32_t a = crc ^ (p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24);
    crc = kTables.of[7][a & 0xFF] ^ kTables.of[6][a >> 8 & 0xFF] ^ kTables.of[5][a >> 16 & 0xFF] ^
          kTables.of[4][a >> 24] ^ kTables.of[3][p[4]] ^ kTables.of[2][p[5]] ^ kTables.of[1][p[6]] ^
          kTables.of[0][p[7]];
  }
  for (; n > 0; ++p, --n) crc = crc >> 8 ^ kTables.of[0][(crc ^ *p) & 0xFF];
  return crc;
}

#if defined(__x86_64__)

bool has_multiplication() {
#if __GLIBC_PREREQ(2, 33)
  // The C library has read CPUID already; in a virtual machine one reading can take 20 us.
  return x86_cpu_active(x86_cpu_PCLMULQDQ) && x86_cpu_active(x86_cpu_SSE4_1);
#else
  static int known = -1;
  if (known < 0) {
    unsigned a, b, c = 0, d;
    known = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_PCLMUL) != 0 && (c & bit_SSE4_1) != 0;
  }
  return known != 0;
#endif
}

#define TAILRACE_MULTIPLIES __attribute__((target("pclmul,sse4.1")))

TAILRACE_MULTIPLIES inline __m128i load(const unsigned char *p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
}

// `x` moved by as many bits as the constants in `k` stand for, plus `next`.
TAILRACE_MULTIPLIES inline __m128i fold(__m128i x, __m128i k, __m128i next) {
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next);
}

// Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ instruction", Intel 2009, for reflected
// bits; its constants. n is at least 64 and a multiple of 16.
TAILRACE_MULTIPLIES uint32_t by_multiplication(uint32_t crc, const unsigned char *p, size_t n) {
  const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4),
                by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124), barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low_32 = _mm_setr_epi32(-1, 0, -1, 0);
  __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i b = load(p + 16), c = load(p + 32), d = load(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = fold(a, by_512, load(p));
    b = fold(b, by_512, load(p + 16));
    c = fold(c, by_512, load(p + 32));
    d = fold(d, by_512, load(p + 48));
  }
  a = fold(fold(fold(a, by_128, b), by_128, c), by_128, d);
  for (; n >= 16; p += 16, n -= 16) a = fold(a, by_128, load(p));
  // 128 bits to 64, to 32.
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
  a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low_32), by_64, 0x00));
  __m128i q = _mm_clmulepi64_si128(_mm_and_si128(a, low_32), barrett, 0x10);
  q = _mm_clmulepi64_si128(_mm_and_si128(q, low_32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(a, q), 1));
}

#endif

}  // namespace

uint32_t crc32_of(const char *data, size_t n) {
  const auto *p = reinterpret_cast<const unsigned char *>(data);
  uint32_t crc = 0xFFFFFFFF;
#if defined(__x86_64__)
  if (n >= 64 && has_multiplication()) {
    const size_t whole = n & ~static_cast<size_t>(15);
    crc = by_multiplication(crc, p, whole);
    p += whole, n -= whole;
  }
#endif
  return ~by_tables(crc, p, n);
}

}  // namespace tailrace
