// See format/line_writer.h.
#include "format/line_writer.h"

#include <stddef.h>

#include <type_traits>

#include "format/line_digits.h"

namespace tailrace {
namespace {

constexpr size_t kHashDigits = 16;

inline uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ULL; }
inline size_t slot_of(uint64_t h, size_t slots) { return (h >> 48) & (slots - 1); }

inline char *put_duration(char *p, uint64_t ns) {
  p = put_decimal(p, ns / 1000);
  *p++ = '.';
  return put_three_digits(p, static_cast<unsigned>(ns % 1000));
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
  return e.round == round_ && e.layout == line.fields.layout && e.kind.function == line.kind.function &&
         e.kind.context == line.kind.context && e.kind.thread == line.kind.thread && is_in_reach(e);
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
    last_ = 0;
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

// The line from end_ to `end` is the one to be repeated from now on.
void LineWriter::keep(Earlier &e, const LineFields &fields, const char *end) {
  e.serial = ++serial_;
  e.kept_at = static_cast<uint32_t>(end_ - text_);
  e.rest_at = e.kept_at;
  for (size_t i = 0; i < fields.first_arg(); ++i) {
    e.rest_at += e.values[i].constant + static_cast<uint32_t>(e.values[i].digits.width());
  }
  e.rest_bytes = static_cast<uint32_t>(end - text_) - e.rest_at;
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
  keep(into, fields, p);
  into.layout = fields.layout;
  into.kind = event.kind;
  into.first_at = into.last_at = static_cast<uint32_t>(end_ - text_);
  // The stream has no room for longer ones in one piece.
  into.round = p - end_ <= static_cast<ptrdiff_t>(kLongestLine) ? round_ : 0;
  add_text(p);
}

// A line while it is copied: what is the same as in the first line of its kind is copied at once, and the stream
// repeats what is the same as in the last one.
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

  void line() {
    field(0, std::integral_constant<LineField, LineField::kTime>());
    field(1, std::integral_constant<LineField, LineField::kDuration>());
    if (event.fields.has_offset()) {
      field(2, std::integral_constant<LineField, LineField::kOffset>());
      field(3, std::integral_constant<LineField, LineField::kNanosecondsNext>());
    } else {
      field(2, std::integral_constant<LineField, LineField::kNanoseconds>());
    }
    const size_t count = event.fields.count;
    for (size_t i = event.fields.first_arg(); i < count; ++i) field(i, event.fields.ids[i]);
    run_bytes += e.tail;
    copy_run();
    stream.repeat(static_cast<size_t>(p - last), run_bytes);
    e.last_at = static_cast<uint32_t>(w.end_ - w.text_);
    w.keep(e, event.fields, p);
    w.end_ = p;
  }
};

void LineWriter::write_like(EventLine &event, Earlier &e) {
  const char *first = text_ + e.first_at, *last = text_ + e.last_at;
  deflate_.settle();
  if (deflate_.is_coding()) {
    Copy<LineDeflate::Coder> copy{
        *this, event, e, LineDeflate::Coder(deflate_, kLongestLine + LineFields::kMost * 24), end_, last, first, 0};
    copy.line();
    copy.stream.done();
  } else {
    Copy<LineDeflate::Keeper> copy{*this, event, e, LineDeflate::Keeper(deflate_), end_, last, first, 0};
    copy.line();
    copy.stream.done();
  }
}

}  // namespace tailrace
