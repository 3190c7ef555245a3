// The line that comes most often: the same call on the same file with the same arguments as an earlier one, so that
// only times and offset are others. See format/line_writer.h.
//
//   {"name":"read",...,"ts":1763600000123456,"dur":1.204,"args":{"offset":4096,"ns":789,"fhash":"...","size":...}}
//   <------- copied -------><first digits>^^^^^ copied ^^^^^ ---- copied ---- ^^^^ copied ^^^ <------ copied ------->
//
// In the stream, what is copied is a match at the distance of the last such line, and the digits that differ from that
// one's are literals; one, two or three of them have a code in one piece.
//
// Invariants: the text is the one that put_fields() makes. An Earlier is left as write_like() leaves it, so that both
// may follow on each other.
//
// A read takes 99 ns here, and took 148 by the general way (tests/bench/seal.cc). What was stored a moment ago in small
// pieces can't be read in large ones without waiting for the store buffer: so parts are copied from the first line of a
// kind, digits are made in registers, and structures are copied member by member. Rejected: samples of 512 to 2,048
// tokens, up to a third more bytes; code for newer processors, 5% faster.
#include "format/line_digits.h"
#include "format/line_writer.h"

namespace tailrace {
namespace {

constexpr size_t kDurationText = sizeof(",\"dur\":") - 1;
constexpr size_t kOffsetText = sizeof(",\"args\":{\"offset\":") - 1,
                 kNanosecondsText = sizeof(",\"args\":{\"ns\":") - 1;
constexpr size_t kNanosecondsNextText = sizeof(",\"ns\":") - 1;
constexpr uint32_t kMostUs = 1000;  // of a duration that is written here

// How many characters at the begin are the same, of `width`.
inline size_t same_begin(uint64_t a, uint64_t b, size_t width) {
  const size_t same = a == b ? 8 : static_cast<size_t>(__builtin_ctzll(a ^ b)) >> 3;
  return same < width ? same : width;
}

template <size_t N>
inline char *put_literal(char *p, const char (&text)[N]) {
  memcpy(p, text, N - 1);
  return p + N - 1;
}

}  // namespace

template <bool kHasOffset, class Stream>
void LineWriter::write_again(Earlier &e, const LineTimes &times) {
  const char *const kept = text_ + e.kept_at;
  const char *last = text_ + e.last_at;
  char *p = end_;
  Stream stream(deflate_, kLongestLine);
  auto near = [&] { return static_cast<size_t>(p - last); };

  EarlierValue &time = e.values[0];
  const uint64_t us = times.start_ns / 1000;
  const auto low = static_cast<uint32_t>(us % kEightDigits);
  const uint64_t time_text = digit_word(low) | kZeros;
  const size_t head = time.constant + time.digits.high_width;
  copy_wide(p, kept, head);
  const size_t same_time = same_begin(time.digits.low, time_text, 8);
  stream.repeat(near(), head + same_time);
  p += head, last += head;
  store_word(p, time_text);
  if (same_time < 5) {
    stream.add_digits(time_text >> (8 * same_time), 8 - same_time);
  } else if (same_time < 8) {
    stream.add_last_digits(low % 1000, 8 - same_time);
  }
  p += 8, last += 8;
  time.value = static_cast<int64_t>(us);
  time.digits.low = time_text;

  EarlierValue &duration = e.values[1];
  const auto whole = static_cast<uint32_t>(times.duration_ns / 1000),
             part = static_cast<uint32_t>(times.duration_ns % 1000);
  Digits d{};
  d.high = few_digits(whole, d.high_width);
  d.low = '.' | static_cast<uint64_t>(kThreeDigits.text[part]) << 8;
  d.low_width = 4;
  const size_t near_from = near();
  p = put_literal(p, ",\"dur\":");
  store_word(p, d.high);
  store_word(p + d.high_width, d.low);
  p += d.width();
  if (d.high == duration.digits.high && d.high_width == duration.digits.high_width) {
    const size_t same = same_begin(d.low, duration.digits.low, 4);
    stream.repeat(near_from, kDurationText + d.high_width + same);
    if (same < 4) stream.add_last_digits(part, 4 - same);
  } else {
    stream.repeat(near_from, kDurationText);
    stream.add(d.high, d.high_width);
    stream.add(d.low, d.low_width);
  }
  last += kDurationText + duration.digits.width();
  duration.value = static_cast<int64_t>(times.duration_ns);
  duration.digits.set(d);

  if constexpr (kHasOffset) {
    EarlierValue &offset = e.values[2];
    const size_t distance = near();
    p = put_literal(p, ",\"args\":{\"offset\":");
    last += kOffsetText;
    Digits o{};
    o.low = left_digits(static_cast<uint32_t>(times.offset), o.low_width);
    store_word(p, o.low);
    const size_t same = same_begin(o.low, load_word(last), o.low_width);
    // The last three digits come again every few lines where blocks of one size are read or written; there they are
    // repeated together with what is behind them.
    uint32_t &seen = offset_ends_[static_cast<uint32_t>(times.offset) % 1000];
    const auto at = static_cast<uint32_t>(p + o.low_width - text_) + 1;
    const size_t far = at - seen;
    const bool again = seen != 0 && far <= LineDeflate::kMaxDistance && same + 3 <= o.low_width;
    if (o.low_width >= 3) seen = at;
    stream.repeat(distance, kOffsetText + same);
    const size_t literals = o.low_width - same - (again ? 3 : 0);
    if (literals != 0) stream.add_digits(o.low >> (8 * same), literals);
    p += o.low_width;
    last += offset.digits.width();
    offset.value = times.offset;
    offset.digits.set(o);
    if (again) {
      stream.repeat(far, 3 + kNanosecondsNextText);
    } else {
      stream.repeat(near(), kNanosecondsNextText);
    }
    p = put_literal(p, ",\"ns\":");
    last += kNanosecondsNextText;
  } else {
    stream.repeat(near(), kNanosecondsText);
    p = put_literal(p, ",\"args\":{\"ns\":");
    last += kNanosecondsText;
  }

  EarlierValue &nanoseconds = e.values[kHasOffset ? 3 : 2];
  const auto ns = static_cast<uint32_t>(times.start_ns % 1000);
  Digits n{};
  n.low = few_digits(ns, n.low_width);
  store_word(p, n.low);
  stream.add_last_digits(ns, n.low_width);
  p += n.low_width, last += nanoseconds.digits.width();
  nanoseconds.value = ns;
  nanoseconds.digits.set(n);

  copy_wide(p, text_ + e.rest_at, e.rest_bytes);
  stream.repeat(near(), e.rest_bytes);
  p += e.rest_bytes;
  stream.done();
  e.last_at = static_cast<uint32_t>(end_ - text_);
  end_ = p;
}

bool LineWriter::add_again(Kept kept, const LineTimes &times) {
  Earlier &e = lines_[kept.line];
  if (e.serial != kept.serial || e.round != round_ || !is_in_reach(e)) return false;
  const bool is_short = times.duration_ns < kMostUs * 1000 && times.offset < static_cast<int64_t>(kEightDigits);
  const uint64_t begin = times.start_ns / 1000 / kEightDigits;
  // A time of eight digits or fewer, of a clock that was never set, has no fixed width.
  const bool has_same_begin = begin != 0 && begin == static_cast<uint64_t>(e.values[0].value) / kEightDigits;
  if (!is_short || !has_same_begin) return false;
  last_ = static_cast<uint16_t>(kept.line + 1);
  if (times.offset >= 0 && offset_ends_round_ != round_) {
    memset(offset_ends_, 0, sizeof offset_ends_);
    offset_ends_round_ = round_;
  }
  const bool has_offset = times.offset >= 0;
  using Coder = LineDeflate::Coder;
  using Keeper = LineDeflate::Keeper;
  deflate_.settle();
  if (deflate_.is_coding()) {
    has_offset ? write_again<true, Coder>(e, times) : write_again<false, Coder>(e, times);
  } else {
    has_offset ? write_again<true, Keeper>(e, times) : write_again<false, Keeper>(e, times);
  }
  return true;
}

}  // namespace tailrace
