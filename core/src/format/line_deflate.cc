// See format/line_deflate.h.
#include "format/line_deflate.h"

#include <algorithm>

namespace tailrace {
namespace {

constexpr unsigned kMaxCodeBits = 15, kMaxLengthCodeBits = 7;
constexpr size_t kLengthCodes = 19;

constexpr uint32_t make_code(uint32_t bits, unsigned n) { return bits | n << 24; }
constexpr uint32_t code_bits(uint32_t code) { return code & 0xFFFFFF; }
constexpr unsigned code_length(uint32_t code) { return code >> 24; }

// RFC 1951, 3.2.5: the symbol of a match's length, and its extra bits.
struct LengthTable {
  uint16_t symbol[259];
  uint8_t extra_bits[259];
  uint8_t extra[259];
};
constexpr LengthTable make_length_table() {
  LengthTable t{};
  constexpr uint16_t kBase[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr uint8_t kExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  for (unsigned i = 0; i < 29; ++i) {
    unsigned end = i + 1 < 29 ? kBase[i + 1] : 259;
    for (unsigned n = kBase[i]; n < end; ++n) {
      t.symbol[n] = static_cast<uint16_t>(257 + i);
      t.extra_bits[n] = kExtra[i];
      t.extra[n] = static_cast<uint8_t>(n - kBase[i]);
    }
  }
  return t;
}
constexpr LengthTable kLengths = make_length_table();

// Lengths of codes without a limit, for counts in ascending order, in their place (Moffat and Katajainen, "In-place
// calculation of minimum-redundancy codes", 1995). n is at least 2.
void minimum_redundancy(uint32_t *a, int n) {
  a[0] += a[1];
  int root = 0, leaf = 2;
  for (int next = 1; next < n - 1; ++next) {
    if (leaf >= n || a[root] < a[leaf]) {
      a[next] = a[root];
      a[root++] = static_cast<uint32_t>(next);
    } else {
      a[next] = a[leaf++];
    }
    if (leaf >= n || (root < next && a[root] < a[leaf])) {
      a[next] += a[root];
      a[root++] = static_cast<uint32_t>(next);
    } else {
      a[next] += a[leaf++];
    }
  }
  a[n - 2] = 0;
  for (int next = n - 3; next >= 0; --next) a[next] = a[a[next]] + 1;
  int free = 1, used = 0, next = n - 1;
  uint32_t depth = 0;
  for (root = n - 2; free > 0; ++depth) {
    for (; root >= 0 && a[root] == depth; --root) ++used;
    for (; free > used; --free) a[next--] = depth;
    free = 2 * used;
    used = 0;
  }
}

// Lengths of prefix codes by counts, at most `limit` bits; 0 where the count is. At least two symbols get one, since
// not every reader takes a code of a single symbol.
void make_lengths(const uint32_t *counts, size_t n, unsigned limit, uint8_t *lengths) {
  constexpr uint32_t kMaxCount = (1U << 22) - 1;
  uint32_t sorted[286], depth[286];
  size_t used = 0;
  for (size_t i = 0; i < n; ++i) {
    lengths[i] = 0;
    if (counts[i]) sorted[used++] = std::min(counts[i], kMaxCount) << 9 | static_cast<uint32_t>(i);
  }
  for (uint32_t i = 0; used < 2; ++i) {
    if (!counts[i]) sorted[used++] = 1U << 9 | i;
  }
  std::sort(sorted, sorted + used);
  for (size_t i = 0; i < used; ++i) depth[i] = sorted[i] >> 9;
  minimum_redundancy(depth, static_cast<int>(used));
  uint32_t of_length[kMaxCodeBits + 1] = {};
  for (size_t i = 0; i < used; ++i) ++of_length[std::min(depth[i], limit)];
  // Codes that were cut to the limit take more room than there is: others become longer until all fit.
  uint32_t total = 0;
  for (unsigned i = 1; i <= limit; ++i) total += of_length[i] << (limit - i);
  for (; total > 1U << limit; --total) {
    --of_length[limit];
    for (unsigned i = limit - 1; i > 0; --i) {
      if (!of_length[i]) continue;
      --of_length[i];
      of_length[i + 1] += 2;
      break;
    }
  }
  size_t at = used;
  for (unsigned length = 1; length <= limit; ++length) {
    for (uint32_t k = 0; k < of_length[length]; ++k) lengths[sorted[--at] & 511] = static_cast<uint8_t>(length);
  }
}

// RFC 1951, 3.2.2; the bits in the order in which they are written.
void make_codes(const uint8_t *lengths, size_t n, uint32_t *codes) {
  uint32_t of_length[kMaxCodeBits + 2] = {}, next[kMaxCodeBits + 2] = {};
  for (size_t i = 0; i < n; ++i) ++of_length[lengths[i]];
  of_length[0] = 0;
  for (unsigned i = 1; i <= kMaxCodeBits; ++i) next[i + 1] = (next[i] + of_length[i]) << 1;
  for (size_t i = 0; i < n; ++i) {
    uint32_t code = next[lengths[i]]++, reversed = 0;
    for (unsigned k = 0; k < lengths[i]; ++k, code >>= 1) reversed = reversed << 1 | (code & 1);
    codes[i] = make_code(reversed, lengths[i]);
  }
}

inline uint32_t load4(const char *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace

void LineDeflate::begin(const char *text, char *out, size_t out_bytes) {
  text_ = at_ = text;
  begin_ = out;
  end_ = out + out_bytes;
  bits_ = {0, 0, out};
  failed_ = coding_ = false;
  distance_ = repeated_ = tokens_ = 0;
  memset(counts_, 0, sizeof counts_);
  memset(distance_counts_, 0, sizeof distance_counts_);
  memset(found_, 0, sizeof found_);
}

// Makes sure that `bytes` and what is left of a word fit. Where they don't the stream is lost, and is written over
// itself until its end.
void LineDeflate::reserve(size_t bytes) {
  if (static_cast<size_t>(end_ - bits_.out) >= bytes + 8) return;
  failed_ = true;
  bits_.out = begin_;
}

void LineDeflate::keep(uint32_t token) {
  kept_[tokens_++] = token;
  if (tokens_ >= kSampleTokens) write_kept(false);
}

void LineDeflate::put_literals(const char *p, size_t n) {
  constexpr size_t kPart = 4096;
  const auto *bytes = reinterpret_cast<const unsigned char *>(p);
  while (n > 0) {
    if (!coding_) {
      ++counts_[*bytes];
      keep(*bytes++);
      --n;
      continue;
    }
    const size_t part = std::min(n, kPart);
    reserve(2 * part);
    Bits b = bits_;
    for (size_t i = 0; i < part; ++i) {
      b.put(literal_codes_[bytes[i]]);
      if (i % 3 == 2) b.flush();
    }
    b.flush();
    bits_ = b;
    bytes += part, n -= part, tokens_ += part;
    if (tokens_ >= kCodedTokens) end_block();
  }
}

void LineDeflate::count_match(size_t length, size_t distance) {
  ++counts_[kLengths.symbol[length]];
  ++distance_counts_[distance_symbol(distance).symbol];
}

void LineDeflate::put_match(size_t length, size_t distance) {
  if (!coding_) {
    count_match(length, distance);
    return keep(match_token(length, distance));
  }
  reserve(8);
  code_match(bits_, length, distance);
  if (++tokens_ >= kCodedTokens) end_block();
}

// The tokens that follow are kept.
void LineDeflate::end_block() {
  reserve(8);
  bits_.put(literal_codes_[kEndOfBlock]);
  bits_.flush();
  coding_ = false;
  tokens_ = 0;
}

void LineDeflate::put_repeat() {
  size_t n = repeated_;
  repeated_ = 0;
  // Few characters cost less by themselves than as a match.
  if (n < kMinMatch + 1) return put_literals(at_ - n, n);
  while (n > kMaxMatch) {
    const size_t part = n - kMaxMatch < kMinMatch ? kMaxMatch - kMinMatch : kMaxMatch;
    put_match(part, distance_);
    n -= part;
  }
  put_match(n, distance_);
}

LineDeflate::Bits LineDeflate::code_odd_repeat(Bits b, const char *at, size_t n, size_t distance) {
  if (n <= kMinMatch) {
    for (const char *p = at - n; p < at; ++p) b.put(literal_codes_[static_cast<unsigned char>(*p)]);
    b.flush();
    return b;
  }
  while (n > kMaxMatch) {
    const size_t part = n - kMaxMatch < kMinMatch ? kMaxMatch - kMinMatch : kMaxMatch;
    code_match(b, part, distance);
    n -= part;
  }
  code_match(b, n, distance);
  return b;
}

void LineDeflate::search(size_t n) {
  const char *from = at_, *end = at_ + n;
  for (const char *p = from; p + 4 <= end;) {
    const uint32_t four = load4(p);
    uint32_t &slot = found_[(four * 2654435761U) >> 21];
    const char *earlier = text_ + slot - 1;
    const bool seen = slot != 0 && static_cast<size_t>(p - earlier) <= kMaxDistance && load4(earlier) == four;
    slot = static_cast<uint32_t>(p - text_) + 1;
    if (!seen) {
      ++p;
      continue;
    }
    const size_t same = same_prefix(p, earlier, static_cast<size_t>(end - p));
    if (p > from) add(static_cast<size_t>(p - from));
    repeat(static_cast<size_t>(p - earlier), same);
    p += same;
    from = p;
  }
  if (end > from) add(static_cast<size_t>(end - from));
}

void LineDeflate::follow(const char *earlier, size_t n) {
  constexpr size_t kFewDigits = 20;
  size_t same = 0;
  if (earlier != nullptr && static_cast<size_t>(at_ - earlier) <= kMaxDistance) {
    same = same_prefix(at_, earlier, n);
    if (same) repeat(static_cast<size_t>(at_ - earlier), same);
  }
  if (n - same > kFewDigits) {
    search(n - same);
  } else if (n > same) {
    add(n - same);
  }
}

// Of the last `n` digits of v.
uint64_t LineDeflate::digits_code(size_t v, size_t n) const {
  uint64_t bits = 0;
  unsigned count = 0;
  for (size_t i = 0; i < n; ++i, v /= 10) {
    const uint32_t code = literal_codes_['0' + v % 10];
    bits = bits << code_length(code) | code_bits(code);
    count += code_length(code);
  }
  return bits | static_cast<uint64_t>(count) << 56;
}

// Codes by the counts so far, which begin anew. Tokens that did not occur have codes too, unless it is the last block.
void LineDeflate::begin_block(bool last) {
  uint8_t lengths[kLiterals + kDistances];
  ++counts_[kEndOfBlock];
  if (!last) {
    for (uint32_t &count : counts_) count = 8 * count + 1;
    for (uint32_t &count : distance_counts_) count = 8 * count + 1;
  }
  make_lengths(counts_, kLiterals, kMaxCodeBits, lengths);
  size_t literals = kLiterals;
  while (literals > 257 && lengths[literals - 1] == 0) --literals;
  make_lengths(distance_counts_, kDistances, kMaxCodeBits, lengths + literals);
  size_t distances = kDistances;
  while (distances > 1 && lengths[literals + distances - 1] == 0) --distances;
  memset(counts_, 0, sizeof counts_);
  memset(distance_counts_, 0, sizeof distance_counts_);
  tokens_ = 0;
  coded_distance_ = 0;
  make_codes(lengths, literals, literal_codes_);
  make_codes(lengths + literals, distances, distance_codes_);
  for (size_t n = kMinMatch; n <= kMaxMatch; ++n) {
    const size_t symbol = kLengths.symbol[n];
    if (symbol >= literals) continue;
    const uint32_t code = literal_codes_[symbol];
    length_codes_[n] = make_code(code_bits(code) | static_cast<uint32_t>(kLengths.extra[n]) << code_length(code),
                                 code_length(code) + kLengths.extra_bits[n]);
  }

  for (size_t d = 1; d < kNear; ++d) {
    const DistanceSymbol symbol = distance_symbol(d);
    const uint32_t code = symbol.symbol < distances ? distance_codes_[symbol.symbol] : 0;
    near_codes_[d] =
        make_code(code_bits(code) | symbol.extra << code_length(code), code_length(code) + symbol.extra_bits);
  }
  for (size_t v = 0; v < 1000; ++v) {
    const size_t digits = v < 10 ? 1 : v < 100 ? 2 : 3;
    for (size_t n = digits; n <= 3; ++n) digit_codes_[kDigitsAt[n] + v] = digits_code(v, n);
  }

  // RFC 1951, 3.2.7: the lengths, with runs as 16 (the one before, 3 to 6 times), 17 (zeros, 3 to 10), 18 (11 to 138).
  struct Run {
    uint8_t symbol, extra;
  } runs[kLiterals + kDistances];
  constexpr uint8_t kExtraBits[kLengthCodes] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7};
  size_t run_count = 0;
  uint32_t run_counts[kLengthCodes] = {};
  auto put_run = [&](size_t symbol, size_t extra) {
    ++run_counts[symbol];
    runs[run_count++] = {static_cast<uint8_t>(symbol), static_cast<uint8_t>(extra)};
  };
  for (size_t i = 0; i < literals + distances;) {
    const uint8_t length = lengths[i];
    size_t n = 1;
    while (i + n < literals + distances && lengths[i + n] == length) ++n;
    i += n;
    if (length != 0) put_run(length, 0), --n;
    while (n >= 3) {
      const size_t part = std::min<size_t>(n, length != 0 ? 6 : 138);
      const size_t symbol = length != 0 ? 16 : part <= 10 ? 17 : 18;
      put_run(symbol, part - (symbol == 18 ? 11 : 3));
      n -= part;
    }
    for (; n > 0; --n) put_run(length, 0);
  }
  uint8_t run_lengths[kLengthCodes];
  uint32_t run_codes[kLengthCodes];
  make_lengths(run_counts, kLengthCodes, kMaxLengthCodeBits, run_lengths);
  make_codes(run_lengths, kLengthCodes, run_codes);
  constexpr uint8_t kOrder[kLengthCodes] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  size_t ordered = kLengthCodes;
  while (ordered > 4 && run_lengths[kOrder[ordered - 1]] == 0) --ordered;
  Bits b = bits_;
  b.put(last ? 5 : 4, 3);
  b.put(literals - 257, 5);
  b.put(distances - 1, 5);
  b.put(ordered - 4, 4);
  b.flush();
  for (size_t i = 0; i < ordered; ++i) {
    b.put(run_lengths[kOrder[i]], 3);
    b.flush();
  }
  for (size_t i = 0; i < run_count; ++i) {
    b.put(run_codes[runs[i].symbol]);
    b.put(runs[i].extra, kExtraBits[runs[i].symbol]);
    b.flush();
  }
  bits_ = b;
}

// Writes the kept tokens as a block, which stays open.
void LineDeflate::write_kept(bool last) {
  const size_t n = tokens_;
  reserve(kHeaderRoom + 6 * n + 16);
  begin_block(last);
  Bits b = bits_;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t token = kept_[i];
    if (token & kMatchToken) {
      code_match(b, (token >> 16 & 0xFF) + kMinMatch, (token & 0xFFFF) + 1);
    } else {
      b.put(literal_codes_[token]);
      b.flush();
    }
  }
  bits_ = b;
  coding_ = true;
}

size_t LineDeflate::finish() {
  end_repeat();
  const bool last = !coding_;
  if (last) write_kept(true);
  reserve(16);
  bits_.put(literal_codes_[kEndOfBlock]);
  // The open block did not say that it is the last: an empty one with the fixed codes does.
  if (!last) bits_.put(3, 10);
  bits_.put(0, 7);
  bits_.flush();
  return failed_ ? 0 : static_cast<size_t>(bits_.out - begin_);
}

size_t store_text(const char *text, size_t n, char *out) {
  char *p = out;
  for (size_t at = 0;;) {
    const size_t part = std::min<size_t>(n - at, 65535);
    const auto length = static_cast<uint16_t>(part);
    p[0] = at + part == n;
    p[1] = static_cast<char>(length & 0xFF), p[2] = static_cast<char>(length >> 8);
    p[3] = static_cast<char>(~length & 0xFF), p[4] = static_cast<char>(~length >> 8 & 0xFF);
    memcpy(p + 5, text + at, part);
    p += 5 + part;
    at += part;
    if (at == n) return static_cast<size_t>(p - out);
  }
}

}  // namespace tailrace
