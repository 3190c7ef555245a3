// Deflate (RFC 1951) for text whose writer knows where it repeats itself: lines that differ from an earlier one in a
// few digits. The writer says so (repeat); only text of which it knows nothing is searched (search).
//
//   text      ...,"ts":1763600000123456,"dur":1.204,"args":{"ns":789,...}}\n        an earlier line
//             ...,"ts":1763600000124013,"dur":0.988,"args":{"ns":12,...}}\n         this one
//   tokens    repeat            4013 repeat   .988 repeat      12 repeat ...  a match each; literals for digits
//
//   kept     kSampleTokens tokens, coded by their own counts, in which every symbol has a code
//   coded    kCodedTokens tokens at once by the same codes; then the next ones are kept again
//
// Invariants: nothing is allocated; no byte is written past the output's end, a stream that would not fit is given up
// (finish() returns 0) and can be stored instead (store_text); distances are 1 to kMaxDistance. The stream says what
// the calls said: that a repeated part is the same as what it repeats is the caller's promise.
//
// No library: ISA-L's fastest level, which searches all of the text, took a quarter more time and a third more bytes
// for reads (5 to 10% less time where each line has a new file), and each process loaded it. A read's line takes 10.3
// bytes; libdeflate's level 12 gets 9.6, for 75 us an event. Rejected: a match for a duration that came before, which
// costs as many bits as the digits that it saves.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

namespace tailrace {

// What keeps a coder's state in registers must not be called.
#define TAILRACE_INLINE inline __attribute__((always_inline))

// How many bytes at `a` and `b` are the same, at most `n`. Eight bytes behind `n` are readable.
inline size_t same_prefix(const char *a, const char *b, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t x, y;
    memcpy(&x, a + i, 8);
    memcpy(&y, b + i, 8);
    if (x == y) continue;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    size_t same = i + (static_cast<size_t>(__builtin_ctzll(x ^ y)) >> 3);
#else
    size_t same = i + (static_cast<size_t>(__builtin_clzll(x ^ y)) >> 3);
#endif
    return same < n ? same : n;
  }
  return n;
}

class LineDeflate {
 public:
  static constexpr size_t kMaxDistance = 32768;
  // What the output must have, even if the stream does not fit.
  static constexpr size_t kLeastRoom = 32 * 1024;

  // Begins a stream of the text at `text`, which is written there before each call that adds to the stream; eight
  // bytes behind it are readable.
  void begin(const char *text, char *out, size_t out_bytes);

  // The next `n` bytes of the text are those `distance` before them.
  void repeat(size_t distance, size_t n) {
    if (distance != distance_ || repeated_ == 0) {
      end_repeat();
      distance_ = distance;
    }
    repeated_ += n;
    at_ += n;
  }
  // The next `n` bytes are new.
  void add(size_t n) {
    end_repeat();
    put_literals(at_, n);
    at_ += n;
  }
  // The next `n` bytes may repeat anything that was searched before.
  void search(size_t n);
  // The next `n` bytes probably repeat those at `earlier`, as far as they do; null: nothing is known.
  void follow(const char *earlier, size_t n);

  // Where the stream is in the text.
  const char *at() const { return at_; }

  // Ends the stream. Returns its size, or 0 when it did not fit.
  size_t finish();

  // Each writes a line: Coder, with all of the stream's state in registers, while tokens are coded at once; Keeper
  // while they are kept. Nothing else may be called until it is done().
  class Coder;
  class Keeper;
  bool is_coding() const { return coding_; }
  // Before one of them: what is repeated so far is not more than some lines.
  void settle() {
    if (repeated_ > 64 * kMaxMatch) end_repeat();
  }

 private:
  static constexpr size_t kSampleTokens = 6144, kCodedTokens = 64 * 1024;
  // The most of a line that Keeper or Coder writes.
  static constexpr size_t kLineTokens = 1024;
  static constexpr uint32_t kMatchToken = 1U << 31;
  static constexpr size_t kLiterals = 286, kDistances = 30, kEndOfBlock = 256;
  static constexpr size_t kMinMatch = 3, kMaxMatch = 258;
  static constexpr size_t kSearchSlots = 2048;
  // Of most distances between two lines.
  static constexpr size_t kNear = 512;
  static constexpr size_t kDigitsAt[4] = {0, 0, 10, 110};
  // A header has at most 17 + 19 * 3 + (286 + 30) * 14 bits.
  static constexpr size_t kHeaderRoom = 640;

  // Bits that are to be written, the first in the lowest. At most 7 are left from call to call.
  struct Bits {
    uint64_t bits;
    unsigned count;
    char *out;

    void put(uint64_t more, unsigned n) {
      bits |= more << count;
      count += n;
    }
    // Member by member: a vector that is read right after its parts were stored waits for the store buffer.
    void set(const Bits &b) {
      bits = b.bits;
      count = b.count;
      out = b.out;
    }
    // A code is its bits in the low 24, and their number above.
    void put(uint32_t code) { put(code & 0xFFFFFF, code >> 24); }
    // One of digits, which may be longer.
    void put_digits(uint64_t code) { put(code & 0xFFFFFFFFFFFFFF, static_cast<unsigned>(code >> 56)); }
    void flush() {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
      uint64_t word = bits;
#else
      uint64_t word = __builtin_bswap64(bits);
#endif
      memcpy(out, &word, 8);
      out += count >> 3;
      bits >>= count & ~7U;
      count &= 7;
    }
  };

  void end_repeat() {
    if (repeated_ != 0) put_repeat();
  }
  void put_repeat();
  void put_literals(const char *p, size_t n);
  void put_match(size_t length, size_t distance);
  void keep(uint32_t token);
  void count_match(size_t length, size_t distance);
  static uint32_t match_token(size_t length, size_t distance) {
    return kMatchToken | static_cast<uint32_t>(length - kMinMatch) << 16 | static_cast<uint32_t>(distance - 1);
  }
  void write_kept(bool last);
  void begin_block(bool last);
  uint64_t digits_code(size_t v, size_t n) const;
  void end_block();
  void reserve(size_t bytes);
  void code_match(Bits &b, size_t length, size_t distance);
  // The `n` bytes before `at`, of which there are too few or too many for a match.
  Bits code_odd_repeat(Bits b, const char *at, size_t n, size_t distance);

  const char *text_;
  const char *at_;
  char *begin_, *end_;
  Bits bits_;
  bool failed_;
  bool coding_;  // a block is open and tokens are coded at once
  size_t distance_, repeated_;
  size_t tokens_;  // kept, or coded since
  uint32_t kept_[kSampleTokens + kLineTokens];
  uint32_t counts_[kLiterals];
  uint32_t distance_counts_[kDistances];
  uint32_t literal_codes_[kLiterals];
  // Of one, two and three digits, at kDigitsAt: bits, and their number in the highest byte.
  uint64_t digit_codes_[10 + 100 + 1000];
  uint32_t length_codes_[kMaxMatch + 1];  // with the extra bits
  uint32_t distance_codes_[kDistances];
  uint32_t near_codes_[kNear];  // of distances below that, with the extra bits
  // The last distance as it is coded, with its extra bits.
  size_t coded_distance_;
  uint64_t coded_bits_;
  unsigned coded_count_;
  uint32_t found_[kSearchSlots];  // by hash: 1 + where in the text four bytes were seen
};

// RFC 1951, 3.2.5: the symbol of a distance.
struct DistanceSymbol {
  unsigned symbol, extra_bits;
  uint32_t extra;
};
inline DistanceSymbol distance_symbol(size_t distance) {
  const auto d = static_cast<uint32_t>(distance - 1);
  if (d < 4) return {d, 0, 0};
  const unsigned bits = 31 - static_cast<unsigned>(__builtin_clz(d));
  return {2 * bits + (d >> (bits - 1) & 1), bits - 1, d & ((1U << (bits - 1)) - 1)};
}

TAILRACE_INLINE void LineDeflate::code_match(Bits &b, size_t length, size_t distance) {
  if (distance < kNear) {
    b.put(length_codes_[length]);
    b.put(near_codes_[distance]);
    return b.flush();
  }
  if (distance != coded_distance_) {
    const DistanceSymbol d = distance_symbol(distance);
    const uint32_t code = distance_codes_[d.symbol];
    coded_distance_ = distance;
    coded_bits_ = (code & 0xFFFFFF) | static_cast<uint64_t>(d.extra) << (code >> 24);
    coded_count_ = (code >> 24) + d.extra_bits;
  }
  b.put(length_codes_[length]);
  b.put(coded_bits_, coded_count_);
  b.flush();
}

class LineDeflate::Coder {
 public:
  // A line of at most `most_bytes`.
  Coder(LineDeflate &d, size_t most_bytes) : d_(d) {
    if (static_cast<size_t>(d.end_ - d.bits_.out) < 2 * most_bytes + 64) d.reserve(2 * most_bytes + 64);
    b_.set(d.bits_);
    at_ = d.at_;
    distance_ = d.distance_;
    repeated_ = d.repeated_;
  }
  TAILRACE_INLINE void repeat(size_t distance, size_t n) {
    if (distance != distance_) {
      end_repeat();
      distance_ = distance;
    }
    repeated_ += n;
    at_ += n;
  }
  // The next `n` bytes, at most 8, are new: those of `word`, the first in the lowest.
  TAILRACE_INLINE void add(uint64_t word, size_t n) {
    end_repeat();
    at_ += n;
    for (; n > 3; n -= 3, word >>= 24) {
      put_three(word);
      b_.flush();
    }
    for (; n > 0; --n, word >>= 8) b_.put(d_.literal_codes_[word & 0xFF]);
    b_.flush();
  }
  // The same of digits only.
  TAILRACE_INLINE void add_digits(uint64_t word, size_t n) {
    end_repeat();
    at_ += n;
    for (; n > 3; n -= 3, word >>= 24) {
      b_.put_digits(d_.digit_codes_[kDigitsAt[3] + (word & 15) * 100 + (word >> 8 & 15) * 10 + (word >> 16 & 15)]);
      b_.flush();
    }
    for (; n > 0; --n, word >>= 8) b_.put(d_.literal_codes_[word & 0xFF]);
    b_.flush();
  }
  // The next `n` bytes, one to three, are new: the last digits of `value`, which is below 1000.
  TAILRACE_INLINE void add_last_digits(uint32_t value, size_t n) {
    static constexpr uint32_t kPower[4] = {0, 10, 100, 1000};
    static constexpr uint32_t kInverse[4] = {0, 6554, 656, 0};  // of the power, by 65536; enough for such values
    const uint32_t last = value - (value * kInverse[n] >> 16) * kPower[n];
    end_repeat();
    at_ += n;
    b_.put_digits(d_.digit_codes_[kDigitsAt[n] + last]);
    b_.flush();
  }
  // At most 20 of them, which were written; null: nothing is known.
  void follow(const char *earlier, size_t n) {
    size_t same = 0;
    if (earlier != nullptr && static_cast<size_t>(at_ - earlier) <= kMaxDistance) same = same_prefix(at_, earlier, n);
    if (same != 0) repeat(static_cast<size_t>(at_ - earlier), same);
    for (; same < n; ++same) add(static_cast<unsigned char>(*at_), 1);
  }
  void done() {
    d_.bits_.set(b_);
    d_.at_ = at_;
    d_.distance_ = distance_;
    d_.repeated_ = repeated_;
    d_.tokens_ += tokens_;
    if (d_.tokens_ >= kCodedTokens) d_.end_block();
  }

 private:
  TAILRACE_INLINE void put_three(uint64_t word) {
    b_.put(d_.literal_codes_[word & 0xFF]);
    b_.put(d_.literal_codes_[word >> 8 & 0xFF]);
    b_.put(d_.literal_codes_[word >> 16 & 0xFF]);
  }
  TAILRACE_INLINE void end_repeat() {
    const size_t n = repeated_;
    if (n == 0) return;
    repeated_ = 0;
    // With the literals that usually follow.
    tokens_ += 4;
    if (n > kMinMatch && n <= kMaxMatch) {
      d_.code_match(b_, n, distance_);
    } else {
      b_.set(d_.code_odd_repeat(b_, at_, n, distance_));
    }
  }

  LineDeflate &d_;
  Bits b_;
  const char *at_;
  size_t distance_, repeated_, tokens_ = 0;
};

// See Coder.
class LineDeflate::Keeper {
 public:
  explicit Keeper(LineDeflate &d, size_t = 0) : d_(d), tokens_(d.tokens_) {}
  void repeat(size_t distance, size_t n) {
    if (distance != d_.distance_) {
      end_repeat();
      d_.distance_ = distance;
    }
    d_.repeated_ += n;
    d_.at_ += n;
  }
  void add(uint64_t word, size_t n) {
    end_repeat();
    d_.at_ += n;
    for (; n > 0; --n, word >>= 8) keep(word & 0xFF);
  }
  void add_digits(uint64_t word, size_t n) { add(word, n); }
  void add_last_digits(uint32_t value, size_t n) {
    if (n > 2) keep_after_repeat(value / 100);
    if (n > 1) keep_after_repeat(value / 10 % 10);
    keep_after_repeat(value % 10);
    d_.at_ += n;
  }
  void follow(const char *earlier, size_t n) {
    size_t same = 0;
    if (earlier != nullptr && static_cast<size_t>(d_.at_ - earlier) <= kMaxDistance) {
      same = same_prefix(d_.at_, earlier, n);
    }
    if (same != 0) repeat(static_cast<size_t>(d_.at_ - earlier), same);
    for (; same < n; ++same) add(static_cast<unsigned char>(*d_.at_), 1);
  }
  void done() {
    d_.tokens_ = tokens_;
    if (tokens_ >= kSampleTokens) d_.write_kept(false);
  }

 private:
  void keep(uint32_t byte) {
    ++d_.counts_[byte];
    d_.kept_[tokens_++] = byte;
  }
  void keep_after_repeat(uint32_t digit) {
    end_repeat();
    keep('0' + digit);
  }
  void end_repeat() {
    size_t n = d_.repeated_;
    if (n == 0) return;
    d_.repeated_ = 0;
    if (n <= kMinMatch) {
      for (const char *p = d_.at_ - n; p < d_.at_; ++p) keep(static_cast<unsigned char>(*p));
      return;
    }
    for (; n > kMaxMatch;) {
      const size_t part = n - kMaxMatch < kMinMatch ? kMaxMatch - kMinMatch : kMaxMatch;
      keep_match(part);
      n -= part;
    }
    keep_match(n);
  }
  void keep_match(size_t length) {
    d_.count_match(length, d_.distance_);
    d_.kept_[tokens_++] = match_token(length, d_.distance_);
  }

  LineDeflate &d_;
  size_t tokens_;
};

// The most bytes that store_text() makes of `n`.
constexpr size_t stored_bound(size_t n) { return n + 5 * (n / 65535 + 1); }
// A deflate stream of stored blocks; `out` has stored_bound(n) bytes. Returns its size.
size_t store_text(const char *text, size_t n, char *out);

}  // namespace tailrace
