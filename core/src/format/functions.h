// The tables of functions as code: hooks.def, hooks_libc.def, layers.def, events.def and categories.def.
//
// Invariants: a function's number is its place in the tables; rows of one event name have the same traits of the
// dataflow, since traces are read by name.
#pragma once

#include <stdint.h>

#include "base/text.h"

namespace tailrace {

// What a row says of its function beside its columns: a set of bits. Those of its category apply as well.
// All but kUncounted are what the function means for the dataflow. The analyzer reads them by event name
// (_native.meanings), and folds events by them (core/native/accesses.h).
namespace trait {
enum Bit : uint32_t {
  // of an event name
  kOpens = 1U << 0,      // opens a file, by `flags`
  kMakes = 1U << 1,      // creates a file, whatever its flags are
  kCreat = 1U << 2,      // truncates a file, whatever its flags are
  kTruncates = 1U << 3,  // to `offset` bytes, which cuts off `count`
  kMaps = 1U << 4,       // munmap and msync end or write back what was stored through a mapping
  kMoves = 1U << 5,
  kLinks = 1U << 6,
  kUnlinks = 1U << 7,
  kForks = 1U << 8,
  kReaps = 1U << 9,   // returns a child that ended
  kWaits = 1U << 10,  // lasts until a child ended
  // of a category
  kUpper = 1U << 11,  // a layer above libc: its bytes are recorded again in the calls below it, and counted there
  kNotIo = 1U << 12,  // its time is no time in an I/O call
  kMmap = 1U << 13,
  kProcess = 1U << 14,
  kChannel = 1U << 15,  // pipe or socket
  kLibc = 1U << 16,     // files of libc's own, which have no name for the program
  // of an event name, above the bits that the reader adds (core/native/accesses.h)
  kNew = 1U << 21,        // makes a file that did not exist before
  kNameless = 1U << 22,   // and that has no name
  kAllocates = 1U << 26,  // blocks of `count` bytes at `offset`, or does with them what `flags` says (fallocate(2))
  // of a category, above them too
  kBuffered = 1U << 23,     // streams of the C library: most calls stay in the process
  kApplication = 1U << 25,  // the program's own events and its GPU's: their names have no other meaning
  // of an event name, three bits that are one number: what its time is, where the other columns don't tell
  // (format/time_kinds.h)
  kFlushes = 1U << 27,
  kLocks = 2U << 27,
  kSleeps = 3U << 27,
  kPolls = 4U << 27,
  kAwaitsChild = 5U << 27,
  kAwaitsThread = 6U << 27,  // a condition, a semaphore, a barrier, a thread's end
  kAwaitsSignal = 7U << 27,
  kTimeKind = 7U << 27,
  // of a category
  kBlocks = 1U << 30,  // waits: what is waited for is not used
  // of either: bytes that the kernel's rchar and wchar don't include, since they don't pass through read(2) and
  // write(2) (docs/trace-format.md)
  kUncounted = 1U << 31,
};
}  // namespace trait

enum class Category : uint8_t {
#define CATEGORY(name, ...) name,
#include "format/categories.def"
#undef CATEGORY
  kCount
};

enum class Fn : uint16_t {
  kNone = 0,
#define HOOK(symbol, name, category, direction, shape, ...) f_##symbol,
#define LAYER(symbol, name, category, direction, shape, ...) f_##symbol,
#define EVENT(number, name, category, direction, shape, ...) number,
#include "format/events.def"
#include "format/hooks.def"
#include "format/layers.def"
#undef EVENT
#undef LAYER
#undef HOOK
  kCount
};
constexpr size_t kFunctionCount = static_cast<size_t>(Fn::kCount);

// The function of a row of hooks.def, which events.def comes before.
constexpr Fn hook_function(size_t row) {
#define EVENT(number, ...) +1
  constexpr size_t kEvents = 0
#include "format/events.def"
      ;
#undef EVENT
  return static_cast<Fn>(1 + kEvents + row);
}

// A number that changes with the tables (FNV-1a of their rows): records numbered by one table are not read by another.
constexpr uint32_t table_number() {
#define HOOK(symbol, name, category, direction, shape, ...) \
#symbol " " name " " #category " " #direction " " #shape " " #__VA_ARGS__ ";"
#define LAYER HOOK
#define EVENT HOOK
#define CATEGORY(name, ...) #name " " #__VA_ARGS__ ";"
  constexpr char kRows[] =
#include "format/categories.def"
#include "format/events.def"
#include "format/hooks.def"
#include "format/layers.def"
      ;
#undef CATEGORY
#undef EVENT
#undef LAYER
#undef HOOK
  uint32_t hash = 2166136261U ^ static_cast<uint32_t>(kFunctionCount);
  for (char c : kRows) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

enum class Direction : uint8_t { N, R, W, RW };

// How a record's fields become a line's args.
enum class Shape : uint8_t {
  kPlain,     // ret
  kOpen,      // flags, ret
  kTransfer,  // offset, count, size, ret: ret is the size
  kItems,     // the same, ret is in items of file2 bytes
  kPointer,   // the same, ret is 1 for a pointer that is not null
  kStatus,    // the same, ret is not the size: 0, or -1 after a failure
  kChars,     // calls, size: a run of single-character calls
  kSeek,      // offset (where it is now), ret; count is what a stream had read ahead, and dropped
  kStream,    // ret; count as in kSeek
  kMap,       // offset, count, prot and flags (of the mapping; the low and high half of file2), ret as pointer
  kExit,      // code, the account
  kExec,      // ret, the account: offset is what was read, count what was written; file2 is the program's Obstacle
  kSpawn,     // ret; count is the program's Obstacle
  kConfine,   // ret; count is the process's own Obstacle from here on
  kWait,      // ret, the child's account: status in count, offset what it read, file2 what it wrote
  kMessages,  // as kTransfer, ret is file2
  kDone,      // as kTransfer, ret is 0
  kRange,     // offset, count, ret: moves no bytes
  kAllocate,  // as kRange; flags are file2, left out where they are 0
  kLock,      // offset, count, flags, holder and ret; file2 is a lock_word(), and without it they are left out
  kLibc,      // size (absent: unknown) and ret, which stands in count; file2 is 1 where the size is unknown
  kRing,      // as kTransfer; file2 is 1 where the result is unknown
  kObject,    // as kTransfer, file2 is what lies in the file; ret is 0, the size kUnknownBytes where it is unknown
  kStart,     // the process record's members
  kThread,    // what a thread has been until then: count on a processor, offset ready (ProcessorTime)
  // Waits: file is what was waited for, count the timeout in ns, file2 a blocked_word(), offset the ticks in the calls.
  kBlocked,
  kPolled,  // the number is that of the descriptors
  kJoined,  // the number is the thread's
  kRegion,  // file is its definition, file2 its number, ret that of the outer one, offset the epoch (of a counter the
            // value's bits), count the step; t1 is 0 while it is open
};

// The direction that a name tells: lines leave it out where it is the call's (docs/trace-format.md, "What a line leaves
// out"). Readers have the same rule, so it can't change without a new version of the format.
constexpr Direction told_direction(string_view name) {
  if (name.find("write") != string_view::npos) return Direction::W;
  return name.find("read") != string_view::npos ? Direction::R : Direction::N;
}

// A text of the table of functions: where it begins in kFunctionTexts, with a zero behind it. A pointer would have to
// be relocated when the library is loaded, and with it all pages of the table copied, in every process (19 pages, 1 to
// 2 us each). DT_RELR saves none of them, and glibc before 2.36 refuses it.
struct TableText {
  uint16_t at, bytes;

  inline const char *data() const;
  bool empty() const { return bytes == 0; }
  string_view view() const { return {data(), bytes}; }
  operator string_view() const { return view(); }
};
extern const struct FunctionTexts kFunctionTexts;
const char *TableText::data() const { return reinterpret_cast<const char *>(&kFunctionTexts) + at; }

struct Function {
  TableText symbol;  // of a hook
  TableText name;
  TableText category;
  TableText opening;  // of its events' lines, up to the process's number
  Direction direction;
  Shape shape;
  uint32_t traits;       // trait::Bit, without its category's
  bool named_direction;  // `direction` is the one that the event's name tells (told_direction)
  bool uncounted;        // kUncounted, its own or its category's
  bool above;            // kUpper, of its category
  bool summed;           // a line of totals can stand for its calls (format/totals.h)
  uint8_t time_kind;     // TimeKind (format/time_kinds.h)
};

// A size that the call does not give, for kObject.
constexpr int64_t kUnknownBytes = INT64_MAX;

extern const Function kFunctions[kFunctionCount];
inline const Function &function(Fn f) { return kFunctions[static_cast<size_t>(f)]; }

struct CategoryRow {
  string_view name;
  uint32_t traits;
};
extern const CategoryRow kCategories[static_cast<size_t>(Category::kCount)];

}  // namespace tailrace
