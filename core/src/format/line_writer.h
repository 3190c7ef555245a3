// The text of a block and its deflate stream, written together, line by line.
//
// A line of a call consists of constant parts and values (LineFields). One that has an earlier line of the same call, or
// of the same call on another file, is written by copying: parts and equal values are a repetition, and only the digits
// that differ are formatted and coded.
//
//   earlier  {"name":"read",...,"ts":1763600000123456,"dur":1.204,"args":{"offset":4096,"ns":789,"fhash":"...","size":...
//   line     <---------- constant ->1763600000124013<----->0.988<---------------->8192<---->12<---------- constant -------
//
// Where times and offset alone are others, add_again() writes the line by the shortest way (line_again.cc).
//
// Metadata and other lines are written by the caller and compared or searched.
//
// Invariants: the text is complete when the stream is, so it can be stored instead. An earlier line is used within one
// block and within deflate's distance only.
#pragma once

#include "format/event_args.h"
#include "format/line_deflate.h"

namespace tailrace {

// Where the digits of a file's hash were last written in the block; 0: not yet.
using TextPlace = uint32_t;

// What the lines of a call are the same in, besides their files.
struct LineKind {
  uint32_t function;
  uint32_t context;  // the slot of its record
  uint32_t thread;
};

// Appends the fields as they are in a line.
char *put_fields(char *p, const LineFields &fields);

// An event's line. The parts that LineKind stands for are used where there is no earlier line.
struct EventLine {
  LineKind kind;
  string_view opening;  // up to the first value
  string_view thread;
  string_view tail;  // after the last value, with the newline
  LineFields fields;
  TextPlace *places[2];  // of fields kFile and kFile2
};

// What differs between two lines of one call on one file.
struct LineTimes {
  uint64_t start_ns;
  uint64_t duration_ns;
  int64_t offset;  // below 0: the line has none
};

class LineWriter {
 public:
  // `text` has kSlackBytes behind the longest line; `out` at least LineDeflate::kLeastRoom bytes.
  void begin(char *text, char *out, size_t out_bytes);

  // Where the next line goes.
  char *line() { return end_; }
  size_t text_bytes() const { return static_cast<size_t>(end_ - text_); }

  void add_event(EventLine &event);

  // The line that add_event() wrote last, as long as it can be repeated.
  struct Kept {
    uint32_t line, serial;
  };
  Kept kept() const { return last_ == 0 ? Kept{0, 0} : Kept{last_ - 1U, lines_[last_ - 1].serial}; }
  // The same line with other times, and another offset where it has one. False: it was not written, and add_event() has to.
  bool add_again(Kept kept, const LineTimes &times);

  // A line that was written to line() and ends at `end`.
  void add_text(const char *end) {
    deflate_.search(static_cast<size_t>(end - end_));
    end_ += end - end_;
  }
  // A file's metadata line, written to line(): where its parts begin, the last of them its end. They are compared with
  // those of the last such line.
  static constexpr size_t kFileParts = 4;
  void add_file(const char *const (&parts)[kFileParts + 1]);
  TextPlace place_of(const char *p) const { return static_cast<TextPlace>(p - text_) + 1; }

  // Returns the stream's size, or 0 when it did not fit.
  size_t finish() { return deflate_.finish(); }

  static constexpr size_t kSlackBytes = 64;

 private:
  static constexpr size_t kLongestLine = 8 * 1024;
  static constexpr size_t kLines = 128, kExactSlots = 512, kSimilarSlots = 1024;

  // A value as it is written: at most eight characters twice, the first in the lowest byte.
  struct Digits {
    uint64_t high, low;
    uint32_t high_width, low_width;
    uint32_t width() const { return high_width + low_width; }
    // Member by member: a vector that is read right after its parts were stored waits for the store buffer.
    void set(const Digits &d) {
      high = d.high;
      low = d.low;
      high_width = d.high_width;
      low_width = d.low_width;
    }
  };
  struct EarlierValue {
    int64_t value;
    int64_t first_value;
    Digits digits;
    uint32_t constant;   // bytes of the part before it
    uint32_t first_end;  // where the value ended in the first line
  };
  // A kind of line and its last one. Parts are copied from the first one, since what was written a moment ago is read
  // slowly.
  struct Earlier {
    uint32_t round;
    uint32_t serial;  // another one whenever more than times and offset may be another
    uint32_t first_at, last_at;
    uint32_t kept_at, rest_at, rest_bytes;  // the line of that serial, and what is behind its nanoseconds
    LineKind kind;
    uint64_t layout;
    uint32_t tail;
    EarlierValue values[LineFields::kMost];
  };
  template <class Stream>
  struct Copy;

  // Values that become shorter make distances larger than that between the lines' begins.
  bool is_in_reach(const Earlier &e) const {
    constexpr size_t kDrift = LineFields::kMost * 32;
    return text_bytes() - e.last_at + kDrift <= LineDeflate::kMaxDistance;
  }
  bool usable(const Earlier &e, const EventLine &line) const;
  void keep(Earlier &e, const LineFields &fields, const char *end);
  static bool same_files(const Earlier &e, const LineFields &fields);
  static Digits digits_of(LineField field, int64_t value);
  void write_anew(EventLine &event, Earlier &into);
  void write_like(EventLine &event, Earlier &like);
  template <bool kHasOffset, class Stream>
  void write_again(Earlier &e, const LineTimes &times);

  char *text_;
  char *end_;
  uint32_t round_;
  uint32_t next_line_;
  uint32_t serial_;
  uint16_t last_;  // 1 + where the last line is
  uint32_t file_round_;
  uint32_t file_parts_[kFileParts];
  // 1 + where in `lines_`. What is there is checked, so these are never cleared.
  uint16_t exact_[kExactSlots];
  uint16_t similar_[kSimilarSlots];
  // 1 + where an offset with these last three digits ended last, of those with more; 0: nowhere in the block.
  uint32_t offset_ends_round_;
  uint32_t offset_ends_[1000];
  Earlier lines_[kLines];
  LineDeflate deflate_;
};

}  // namespace tailrace
