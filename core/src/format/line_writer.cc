// See format/line_writer.h.
#include "format/line_writer.h"

#include <stddef.h>

#include <type_traits>

namespace tailrace {
namespace {

constexpr size_t kHashDigits = 16;
constexpr size_t kLongestLine = 8 * 1024;

inline uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ULL; }
inline size_t slot_of(uint64_t h, size_t slots) { return (h >> 48) & (slots - 1); }

// Copies in steps of 32 bytes, so up to 31 more than `n`.
inline void copy_wide(char *to, const char *from, size_t n) {
  memcpy(to, from, 32);
  if (n <= 32) return;
  memcpy(to + 32, from + 32, 32);
  if (n > 64) memcpy(to + 64, from + 64, n - 64);
}

inline char *put_duration(char *p, uint64_t ns) {
  p = put_decimal(p, ns / 1000);
  *p++ = '.';
  return put_three_digits(p, static_cast<unsigned>(ns % 1000));
}

constexpr uint64_t kEightDigits = 100'000'000;
constexpr uint64_t kZeros = 0x3030303030303030;  // eight characters

// Three decimal digits, the first in the lowest byte.
struct ThreeDigits {
  uint32_t text[1000];
};
constexpr ThreeDigits make_three_digits() {
  ThreeDigits t{};
  for (uint32_t v = 0; v < 1000; ++v) t.text[v] = kZeros >> 40 | v / 100 | v / 10 % 10 << 8 | v % 10 << 16;
  return t;
}
constexpr ThreeDigits kThreeDigits = make_three_digits();

// Without leading zeros.
inline uint64_t few_digits(uint32_t v, uint32_t &width) {
  width = 1 + (v >= 10) + (v >= 100);
  return kThreeDigits.text[v] >> (24 - 8 * width);
}

// The eight decimal digits of v, which is below 10^8, the first in the lowest byte; each byte holds a digit's value.
// Two, four and eight digits are separated by one multiplication each.
inline uint64_t digit_word(uint32_t v) {
  const uint64_t fours = v / 10000 | static_cast<uint64_t>(v % 10000) << 32;
  const uint64_t hundreds = (fours * 10486) >> 20 & 0x0000007F0000007F;
  const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
  const uint64_t tens = (twos * 103) >> 10 & 0x000F000F000F000F;
  return tens | (twos - 10 * tens) << 8;
}

// The same as characters, without leading zeros.
inline uint64_t left_digits(uint32_t v, uint32_t &width) {
  const uint64_t word = digit_word(v);
  // A zero has one digit.
  const auto zeros = static_cast<uint32_t>(__builtin_ctzll(word | 1ULL << 56)) >> 3;
  width = 8 - zeros;
  return (word | kZeros) >> (8 * zeros);
}

inline char *put_value(char *p, LineField field, int64_t value) {
  switch (field) {
    case LineField::kFile:
    case LineField::kFile2: return put_hex(p, static_cast<uint64_t>(value), kHashDigits);
    case LineField::kDuration: return put_duration(p, static_cast<uint64_t>(value));
    case LineField::kTime:
    case LineField::kNanoseconds:
    case LineField::kNanosecondsNext: return put_decimal(p, static_cast<uint64_t>(value));
    default: return put_signed(p, value);
  }
}

constexpr bool is_file(LineField field) { return field == LineField::kFile || field == LineField::kFile2; }

inline void store_word(char *p, uint64_t word) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  memcpy(p, &word, 8);
}

}  // namespace

char *put_fields(char *p, const LineFields &fields) {
  for (size_t i = 0; i < fields.count; ++i) {
    p = put(p, kFieldTexts[static_cast<size_t>(fields.ids[i])]);
    if (fields.has_value(i)) p = put_value(p, fields.ids[i], fields.values[i]);
    if (is_file(fields.ids[i])) *p++ = '"';
  }
  return p;
}

void LineWriter::begin(char *text, char *out, size_t out_bytes) {
  text_ = end_ = text;
  ++round_;
  memset(offset_ends_, 0, sizeof offset_ends_);
  deflate_.begin(text, out, out_bytes);
}

void LineWriter::add_file(const char *const (&parts)[kFileParts + 1]) {
  for (size_t i = 0; i < kFileParts; ++i) {
    const char *earlier = file_round_ == round_ ? text_ + file_parts_[i] : nullptr;
    deflate_.follow(earlier, static_cast<size_t>(parts[i + 1] - parts[i]));
    file_parts_[i] = static_cast<uint32_t>(parts[i] - text_);
  }
  file_round_ = round_;
  end_ += parts[kFileParts] - end_;
}

// Up to 8 bytes more than its characters are written.
template <class Digits>
inline char *put_digits(char *p, const Digits &d) {
  store_word(p, d.high);
  p += d.high_width;
  store_word(p, d.low);
  return p + d.low_width;
}

// How many characters at the begin are the same, of values that differ.
template <class Digits>
inline size_t same_digits(const Digits &a, const Digits &b) {
  if (a.high_width != b.high_width) return 0;
  if (a.high != b.high) return static_cast<size_t>(__builtin_ctzll(a.high ^ b.high)) >> 3;
  if (a.low == b.low) return a.high_width + (a.low_width < b.low_width ? a.low_width : b.low_width);
  const size_t same = static_cast<size_t>(__builtin_ctzll(a.low ^ b.low)) >> 3;
  const size_t most = a.low_width < b.low_width ? a.low_width : b.low_width;
  return a.high_width + (same < most ? same : most);
}

inline bool LineWriter::usable(const Earlier &e, const EventLine &line) const {
  // Values that become shorter make distances larger than that between the lines' begins.
  constexpr size_t kDrift = LineFields::kMost * 32;
  return e.round == round_ && e.layout == line.fields.layout && e.kind.function == line.kind.function &&
         e.kind.context == line.kind.context && e.kind.thread == line.kind.thread &&
         text_bytes() - e.last_at + kDrift <= LineDeflate::kMaxDistance;
}

inline bool LineWriter::same_files(const Earlier &e, const LineFields &fields) {
  for (size_t i = fields.first_arg(); i < fields.count && is_file(fields.ids[i]); ++i) {
    if (e.values[i].value != fields.values[i]) return false;
  }
  return true;
}

// Of a value that can_be_digits().
__attribute__((always_inline)) inline LineWriter::Digits LineWriter::digits_of(LineField field, int64_t signed_value) {
  const auto value = static_cast<uint64_t>(signed_value);
  Digits d{};
  if (field == LineField::kDuration) {
    const auto us = static_cast<uint32_t>(value / 1000);
    if (us < 1000) {
      d.high = few_digits(us, d.high_width);
    } else {
      d.high = left_digits(us, d.high_width);
    }
    d.low = '.' | static_cast<uint64_t>(kThreeDigits.text[value % 1000]) << 8;
    d.low_width = 4;
  } else if (is_file(field)) {
    d.high = hex_digits(static_cast<uint32_t>(value >> 32));
    d.low = hex_digits(static_cast<uint32_t>(value));
    d.high_width = d.low_width = 8;
  } else if (value < 1000) {
    d.low = few_digits(static_cast<uint32_t>(value), d.low_width);
  } else if (value < kEightDigits) {
    d.low = left_digits(static_cast<uint32_t>(value), d.low_width);
  } else {
    d.high = left_digits(static_cast<uint32_t>(value / kEightDigits), d.high_width);
    d.low = digit_word(static_cast<uint32_t>(value % kEightDigits)) | kZeros;
    d.low_width = 8;
  }
  return d;
}

// No value is negative or has more than sixteen digits.
static bool can_be_digits(const LineFields &fields) {
  return fields.all_values >> 53 == 0 && fields.values[1] < static_cast<int64_t>(kEightDigits) * 1000;
}

void LineWriter::add_event(EventLine &event) {
  const LineFields &fields = event.fields;
  if (!can_be_digits(fields)) {
    char *p = put_fields(put(put(end_, event.opening), event.thread), fields);
    return add_text(put(p, event.tail));
  }
  // The same call on the same file as on the line before is what comes most often.
  if (last_ != 0 && usable(lines_[last_ - 1], event) && same_files(lines_[last_ - 1], fields)) {
    return write_like(event, lines_[last_ - 1]);
  }
  uint64_t h = mix(fields.layout, event.kind.function | static_cast<uint64_t>(event.kind.context) << 32);
  h = mix(h, event.kind.thread);
  uint16_t &similar = similar_[slot_of(h, kSimilarSlots)];
  for (size_t i = fields.first_arg(); i < fields.count && is_file(fields.ids[i]); ++i) {
    h = mix(h, static_cast<uint64_t>(fields.values[i]));
  }
  uint16_t &exact = exact_[slot_of(h, kExactSlots)];
  if (exact != 0 && usable(lines_[exact - 1], event) && same_files(lines_[exact - 1], fields)) {
    similar = last_ = exact;
    return write_like(event, lines_[exact - 1]);
  }
  const Earlier *like = similar != 0 && usable(lines_[similar - 1], event) ? &lines_[similar - 1] : nullptr;
  Earlier &into = lines_[next_line_];
  next_line_ = (next_line_ + 1) % kLines;
  similar = exact = last_ = static_cast<uint16_t>(&into - lines_ + 1);
  if (like == nullptr) return write_anew(event, into);
  memcpy(static_cast<void *>(&into), like, offsetof(Earlier, values) + fields.count * sizeof(EarlierValue));
  write_like(event, into);
}

void LineWriter::write_anew(EventLine &event, Earlier &into) {
  const LineFields &fields = event.fields;
  const char *from = end_;
  char *p = put(put(end_, event.opening), event.thread);
  for (size_t i = 0; i < fields.count; ++i) {
    EarlierValue &v = into.values[i];
    p = put(p, kFieldTexts[static_cast<size_t>(fields.ids[i])]);
    v.constant = static_cast<uint32_t>(p - from);
    v.value = v.first_value = fields.values[i];
    v.digits = fields.has_value(i) ? digits_of(fields.ids[i], fields.values[i]) : Digits{};
    from = p;
    p = put_digits(p, v.digits);
    if (is_file(fields.ids[i])) *event.places[fields.ids[i] == LineField::kFile2] = place_of(from);
    v.first_end = static_cast<uint32_t>(p - end_);
    from = p;
    if (is_file(fields.ids[i])) *p++ = '"';
  }
  p = put(p, event.tail);
  into.tail = static_cast<uint32_t>(p - from);
  into.layout = fields.layout;
  into.kind = event.kind;
  into.first_at = into.last_at = static_cast<uint32_t>(end_ - text_);
  // The stream has no room for longer ones in one piece.
  into.round = p - end_ <= static_cast<ptrdiff_t>(kLongestLine) ? round_ : 0;
  add_text(p);
}

// A line while it is copied: what is the same as in the first line of its kind is copied at once, and the stream repeats
// what is the same as in the last one.
template <class Stream>
struct LineWriter::Copy {
  LineWriter &w;
  EventLine &event;
  Earlier &e;
  Stream stream;
  char *p;
  const char *last;  // where the last line has the same
  const char *run;   // in the first line: the part that is to be copied
  size_t run_bytes;
  size_t far = 0;  // the distance at which an offset with the same last digits is repeated

  void copy_run() {
    copy_wide(p, run, run_bytes);
    p += run_bytes;
    last += run_bytes;
  }

  template <class Field>
  inline __attribute__((always_inline)) void field(size_t i, Field id) {
    const int64_t value = event.fields.values[i];
    EarlierValue &v = e.values[i];
    TextPlace *place = nullptr;
    if (is_file(id)) place = event.places[id == LineField::kFile2];
    run_bytes += v.constant;
    if (value == v.value && value == v.first_value) {
      if (place != nullptr) *place = w.place_of(p + run_bytes);
      run_bytes += v.digits.width();
      return;
    }
    copy_run();
    const auto distance = static_cast<size_t>(p - last);
    const size_t old_width = v.digits.width();
    if (value == v.value) {
      stream.repeat(distance, run_bytes + old_width);
      if (place != nullptr) *place = w.place_of(p);
      p = put_digits(p, v.digits);
    } else if (is_file(id)) {
      stream.repeat(distance, run_bytes);
      v.digits = digits_of(id, value);
      char *end = put_digits(p, v.digits);
      stream.follow(*place != 0 ? w.text_ + *place - 1 : nullptr, kHashDigits);
      *place = w.place_of(p);
      p = end;
    } else {
      const Digits d = digits_of(id, value);
      p = put_digits(p, d);
      const size_t same = same_digits(d, v.digits);
      stream.repeat(distance, run_bytes + same);
      const bool before_point = id == LineField::kDuration && same == d.high_width;
      if (same < d.high_width || before_point) {
        if (same < d.high_width) stream.add(d.high >> (8 * same), d.high_width - same);
        stream.add(d.low, d.low_width);
      } else if (same < d.width()) {
        stream.add_digits(d.low >> (8 * (same - d.high_width)), d.width() - same);
      }
      v.digits = d;
    }
    v.value = value;
    last += old_width;
    run = w.text_ + e.first_at + v.first_end;
    run_bytes = 0;
  }

  // The last three digits of an offset come again every few lines where blocks of one size are read or written; there
  // they are repeated together with the part behind them.
  inline __attribute__((always_inline)) void offset() {
    constexpr size_t kLast = 3;
    constexpr size_t i = LineFields::kOffsetAt;
    using Id = std::integral_constant<LineField, LineField::kOffset>;
    const int64_t value = event.fields.values[i];
    EarlierValue &v = e.values[i];
    if (value == v.value || value < 1000) return field(i, Id());
    const Digits d = digits_of(Id(), value);
    const size_t width = d.width(), same = same_digits(d, v.digits);
    uint32_t &seen = w.offset_ends_[static_cast<uint64_t>(value) % 1000];
    const auto at = static_cast<uint32_t>(p + run_bytes + v.constant + (width - kLast) - w.text_) + 1;
    const size_t distance = at - seen;
    const bool again = seen != 0 && distance <= LineDeflate::kMaxDistance && same + kLast <= width;
    seen = at;
    run_bytes += v.constant;
    copy_run();
    const auto last_distance = static_cast<size_t>(p - last);
    p = put_digits(p, d);
    stream.repeat(last_distance, run_bytes + same);
    if (same < d.high_width) stream.add(d.high >> (8 * same), d.high_width - same);
    const size_t from = same < d.high_width ? 0 : same - d.high_width, end = d.low_width - (again ? kLast : 0);
    if (from < end) stream.add_digits(d.low >> (8 * from), end - from);
    if (again) stream.repeat(distance, kLast);
    last += v.digits.width();
    v.digits = d;
    v.value = value;
    far = again ? distance : 0;
    run = w.text_ + e.first_at + v.first_end;
    run_bytes = 0;
  }

  inline __attribute__((always_inline)) void nanoseconds_next() {
    constexpr size_t i = LineFields::kOffsetAt + 1;
    using Id = std::integral_constant<LineField, LineField::kNanosecondsNext>;
    if (far == 0) return field(i, Id());
    const int64_t value = event.fields.values[i];
    EarlierValue &v = e.values[i];
    run_bytes = v.constant;
    copy_run();
    stream.repeat(far, v.constant);
    last += v.digits.width();
    v.digits = digits_of(Id(), value);
    v.value = value;
    p = put_digits(p, v.digits);
    stream.add_digits(v.digits.low, v.digits.low_width);
    run = w.text_ + e.first_at + v.first_end;
    run_bytes = 0;
  }

  void line() {
    field(0, std::integral_constant<LineField, LineField::kTime>());
    field(1, std::integral_constant<LineField, LineField::kDuration>());
    if (event.fields.has_offset()) {
      offset();
      nanoseconds_next();
    } else {
      field(2, std::integral_constant<LineField, LineField::kNanoseconds>());
    }
    const size_t count = event.fields.count;
    for (size_t i = event.fields.first_arg(); i < count; ++i) field(i, event.fields.ids[i]);
    run_bytes += e.tail;
    copy_run();
    stream.repeat(static_cast<size_t>(p - last), run_bytes);
    e.last_at = static_cast<uint32_t>(w.end_ - w.text_);
    w.end_ = p;
  }
};

namespace {

// The same calls for a stream that keeps its tokens, which reads them from the text.
class Keeper {
 public:
  explicit Keeper(LineDeflate &d) : d_(d) {}
  void repeat(size_t distance, size_t n) { d_.repeat(distance, n); }
  void add(uint64_t, size_t n) { d_.add(n); }
  void add_digits(uint64_t, size_t n) { d_.add(n); }
  void follow(const char *earlier, size_t n) { d_.follow(earlier, n); }
  void done() {}

 private:
  LineDeflate &d_;
};

}  // namespace

void LineWriter::write_like(EventLine &event, Earlier &e) {
  const char *first = text_ + e.first_at, *last = text_ + e.last_at;
  if (deflate_.is_coding()) {
    Copy<LineDeflate::Coder> copy{
        *this, event, e, LineDeflate::Coder(deflate_, kLongestLine + LineFields::kMost * 24), end_, last, first, 0};
    copy.line();
    copy.stream.done();
  } else {
    Copy<Keeper> copy{*this, event, e, Keeper(deflate_), end_, last, first, 0};
    copy.line();
  }
}

}  // namespace tailrace
