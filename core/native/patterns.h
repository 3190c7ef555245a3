// How files are used, and what each function was called for: sums of events beside those of bursts.h.
//
//     each call -> its pattern (actor, file, direction): order of its offsets, sizes; its function (actor, kind,
//     category, name), and the sizes of that in the whole run
//
// Invariants: the order is that of the events as they come, which is each thread's own. A line of totals gives the same
// sums as its calls.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "growing.h"
#include "numbering.h"
#include "pieces.h"

namespace tailrace::native {

enum PatternColumn : size_t {
  kPatternWho,
  kPatternFile,
  kPatternDirection,
  kPatternCalls,
  kConsecutive,  // began where the one before ended
  kStrided,      // as far from the one before as that one from its own, and not consecutive
  kReturning,    // began before the end of the one before
  kUnlocated,    // that moved bytes at an unknown offset
  kPlaced,       // that moved bytes at a known offset of a file whose block is known
  kUnaligned,    // of those, that touch a block more than their bytes need, and are not consecutive
  // in a row whose direction is that of metadata calls, and which has nothing else
  kOpened,
  kSought,
  kReadAhead,   // bytes that the C library read ahead, and dropped
  kLeastBlock,  // of the file, where calls are placed: bytes; kNoBlock where none is
  kMostBlock,   // 0 where none is
  kPatternColumns
};
inline constexpr const char *kPatternNames[kPatternColumns] = {
    "who",    "file",      "dir",   "calls", "consecutive", "strided",     "backward",  "unlocated",
    "placed", "unaligned", "opens", "seeks", "ahead",       "least_block", "most_block"};
inline constexpr int64_t kNoBlock = INT64_MAX;

enum SizeColumn : size_t { kSizeWho, kSizeFile, kSizeDirection, kSizeBits, kSizeCalls, kSizeColumns };
inline constexpr const char *kSizeNames[kSizeColumns] = {"who", "file", "dir", "bits", "calls"};

enum FunctionColumn : size_t {
  kFunctionWho,
  kFunctionKind,
  kFunctionCat,
  kFunctionName,
  kFunctionCalls,
  kFunctionFailed,
  kFunctionBytes,
  kFunctionNs,
  kFunctionColumns
};
inline constexpr const char *kFunctionNames[kFunctionColumns] = {"who",   "kind",   "cat",   "name",
                                                                 "calls", "failed", "bytes", "time_ns"};

// Calls of a function by the bytes that each moved, in ranges of kLengthDigits significant digits.
enum LengthColumn : size_t {
  kLengthKind,
  kLengthCat,
  kLengthName,
  kLengthRange,  // the least number in it; -1: calls whose own sizes are not known
  kLengthCalls,
  kLeastLength,
  kMostLength,
  kLengthColumns
};
inline constexpr const char *kLengthNames[kLengthColumns] = {"kind", "cat", "name", "range", "calls", "least", "most"};
// Binary ones: a range is narrower than a hundredth of its numbers, and a function has at most some thousand ranges.
inline constexpr int64_t kLengthDigits = 8;

struct PatternTables {
  Growing<int64_t> patterns[kPatternColumns], sizes[kSizeColumns], functions[kFunctionColumns], lengths[kLengthColumns];
};

// The name of a function is its category's code and its own.
struct FunctionName {
  int32_t cat, name;
};

class PatternFolder {
 public:
  // One event that moves `bytes` in `calls` calls. offset: -1 where it is unknown; block: of the file, bytes, 0
  // likewise.
  void add(int64_t who, int64_t file, int64_t direction, int64_t offset, int64_t bytes, int64_t calls, int64_t block);

  // A line of totals. sizes: its histogram, "[bits,calls,...]". Throws std::invalid_argument where it is none.
  void add_totals(int64_t who, int64_t file, int64_t direction, int64_t calls, int64_t followed,
                  std::string_view sizes);
  // Of these, kPlaced and kUnaligned ones.
  void add_placed(int64_t who, int64_t file, int64_t direction, int64_t placed, int64_t unaligned, int64_t block);
  // One of its pieces.
  void add_piece(int64_t who, int64_t file, int64_t direction, const Piece &piece);

  // Opens of the file that succeeded, seeks in it, and bytes of it that the C library read ahead and dropped. kind: of
  // calls that move nothing.
  void add_unmoving(int64_t who, int64_t file, int64_t kind, int64_t opens, int64_t seeks, int64_t ahead);

  void add_function(int64_t who, int64_t kind, FunctionName name, int64_t calls, int64_t failed, int64_t bytes,
                    int64_t time_ns);
  // Calls of a function that moved `bytes` each; -1: each call's bytes are not known.
  void add_length(int64_t kind, FunctionName name, int64_t bytes, int64_t calls);

  PatternTables take() &&;

 private:
  // Numbers that distinguish rows.
  struct Key {
    int64_t a, b, c;

    bool operator==(const Key &o) const { return a == o.a && b == o.b && c == o.c; }
    uint64_t hash() const {
      const auto high = static_cast<uint64_t>(a), middle = static_cast<uint64_t>(b), low = static_cast<uint64_t>(c);
      return mixed(mixed(high << 32 ^ middle) ^ low);
    }
  };
  struct Pattern {
    int64_t calls = 0, consecutive = 0, strided = 0, backward = 0, unlocated = 0, placed = 0, unaligned = 0, opens = 0,
            seeks = 0, ahead = 0;
    int64_t least_block = kNoBlock, most_block = 0;
    // Of the last access, -1: not known; step: from the one before it.
    int64_t from = -1, to = -1, step = 0;
  };
  struct Function {
    int64_t calls, failed, bytes, time_ns;
  };

  struct Length {
    int64_t calls, least, most;
  };

  static void place(Pattern *pattern, int64_t calls, int64_t unaligned, int64_t block);
  static void go_on(Pattern *pattern, const Interval &access);
  uint32_t pattern_of(int64_t who, int64_t file, int64_t direction);
  void add_size(uint32_t pattern, int64_t bits, int64_t calls);

  Numbering<Key> pattern_keys_, size_keys_, function_keys_, length_keys_;
  uint32_t last_pattern_ = 0;
  bool line_begins_ = false;  // of totals: no piece with an access at a known offset has come yet
  std::vector<Pattern> patterns_;
  std::vector<int64_t> size_calls_;
  std::vector<Function> functions_;
  std::vector<Length> lengths_;
};

}  // namespace tailrace::native
