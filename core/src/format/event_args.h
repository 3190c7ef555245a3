// A record's fields as the args of its line, by the shape of its function (format/functions.h; docs/trace-format.md,
// "Event lines").
#pragma once

#include "format/functions.h"
#include "format/journal.h"
#include "format/program.h"

namespace tailrace {

// Appends `name` (a literal, with its comma, quotes and colon) and the value.
template <size_t N>
inline char *put_field(char *p, const char (&name)[N], int64_t value) {
  memcpy(p, name, N - 1);
  return put_signed(p + N - 1, value);
}

// The values of a line, in its order. One without a value is its text alone.
enum class LineField : uint8_t {
  kTime,         // whole microseconds
  kDuration,     // nanoseconds, written as microseconds
  kNanoseconds,  // of the time
  kOffset,
  kNanosecondsNext,  // the same behind the offset
  kFile,             // a hash, as all that follow it up to the quote
  kFile2,
  kFlags,
  kCount,
  kNoCount,  // no value, as the next ones up to kAtOnce
  kRead,
  kWritten,
  kCopied,
  kAtOnce,
  kCalls,
  kProtection,
  kStatus,
  kReadChars,
  kWrittenChars,
  kSize,
  kReturned,
  kErrno,
  kRegion,  // this and the next three: of a region
  kOuterRegion,
  kEpoch,
  kStep,
  kAhead,
  kRun,  // this and the next two: ns on a processor, ready, and on a processor of those whose time ready is known
  kReady,
  kReadyOf,
  kTimeout,  // ns, of a wait
  kDescriptors,
  kThread,    // that is waited for
  kHolder,    // of a lock
  kSpan,      // ns of several calls
  kUntraced,  // no value; this and the next ones: one for each Obstacle
  kEnd = kUntraced + static_cast<uint8_t>(Obstacle::kCount),
};
// What stands before a field's value; before that of the time nothing, since it follows on the line's opening.
extern const string_view kFieldTexts[static_cast<size_t>(LineField::kEnd)];

// A line's fields, and their order as a number. Time, duration and nanoseconds are there on each line; an offset is
// before the nanoseconds: what changes from line to line is side by side, so that little is repeated in between.
struct LineFields {
  static constexpr size_t kMost = 12, kOffsetAt = 2;
  size_t count = 0;
  uint64_t layout = 0;
  uint64_t all_values = 0;  // the bits of all but hashes
  LineField ids[kMost];
  int64_t values[kMost];

  void add(LineField id, int64_t value = 0) {
    if (id != LineField::kFile && id != LineField::kFile2) all_values |= static_cast<uint64_t>(value);
    ids[count] = id;
    values[count++] = value;
    layout = layout << 6 | static_cast<uint64_t>(id);
  }
  bool has_offset() const { return ids[kOffsetAt] == LineField::kOffset; }
  // Behind the nanoseconds.
  size_t first_arg() const { return has_offset() ? 4 : 3; }
  bool has_value(size_t i) const {
    return !(ids[i] >= LineField::kNoCount && ids[i] <= LineField::kAtOnce) && ids[i] < LineField::kUntraced;
  }
};

// The slot's second file, or 0: some shapes keep another value in its place.
uint64_t second_file(const Slot &slot, const Function &f);

// Bytes that the call moved.
int64_t moved_bytes(const Slot &slot, const Function &f);

// What a wait's record has in `count`: the status, and what its process knew of the child that it had started
// (session/memory_sharers.h).
struct WaitedChild {
  int32_t status;
  uint32_t kind;
  int64_t own_bytes;
};
constexpr uint64_t wait_word(const WaitedChild &child) {
  constexpr int64_t kMost = (int64_t{1} << 40) - 1;
  const int64_t own = child.own_bytes < 0 ? 0 : child.own_bytes > kMost ? kMost : child.own_bytes;
  return static_cast<uint64_t>(own) << 24 | static_cast<uint64_t>(child.kind & 0xFF) << 16 |
         (static_cast<uint32_t>(child.status) & 0xFFFF);
}
constexpr WaitedChild waited_child(uint64_t word) {
  return {static_cast<int32_t>(word & 0xFFFF), static_cast<uint32_t>(word >> 16 & 0xFF),
          static_cast<int64_t>(word >> 24)};
}

// An Obstacle as a slot keeps it; a journal may hold anything.
Obstacle obstacle_in(uint64_t field);

// The fields that come first on each line. duration in ns; offset: below 0 where the line has none.
void add_times(LineFields &fields, uint64_t start_ns, uint64_t duration, int64_t offset = -1);
// The offset that a call's line has, below 0 where it has none.
int64_t offset_of(const Slot &slot, const Function &f);

// Waits, whose slot may stand for several calls (journal.h, blocked_word).
constexpr bool is_wait(Shape shape) {
  return shape == Shape::kBlocked || shape == Shape::kPolled || shape == Shape::kJoined;
}
bool stands_for_several(const Slot &slot, const Function &f);

// All args behind those but those of `start` and `exit`, which are the process's and not the call's, and files and
// objects.
void add_event_args(LineFields &fields, const Slot &slot, const Function &f, int64_t size);

// What is known of it.
void add_time_args(LineFields &fields, const ProcessTime &time);

}  // namespace tailrace
