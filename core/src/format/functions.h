// The hook table (format/hooks.def) as code: a number for every hooked function, and what the trace says of it.
#pragma once

#include <stdint.h>

#include "base/text.h"

namespace tailrace {

enum class Fn : uint16_t {
  kNone = 0,
#define HOOK(symbol, name, category, direction) f_##symbol,
#include "format/hooks.def"
#undef HOOK
#define LAYER(symbol, name, category, direction) f_##symbol,
#include "format/layers.def"
#undef LAYER
  // Records that no hook makes.
  kStart,
  // Events that a hook of another name makes: vmsplice out of a pipe, results of asynchronous requests, FICLONE, what a
  // call of libc's does besides.
  kVmspliceRead,
  kAioRead,
  kAioWritten,
  kIoRead,
  kIoWritten,
  kRingRead,
  kRingWritten,
  kClone,
  kLibcRead,
  kLibcWritten,
  kSyslogged,
  kAsked,
  kAnswered,
  kExpanding,
  kBlocksRead,
  kBlocksWritten,
  kCount
};
constexpr size_t kFunctionCount = static_cast<size_t>(Fn::kCount);

// A number that changes with the table (FNV-1a of its rows): what was numbered by one is not read by another.
constexpr uint32_t table_number() {
#define HOOK(symbol, name, category, direction) #symbol " " name " " #category " " #direction ";"
#define LAYER(symbol, name, category, direction) #symbol " " name " " #category " " #direction ";"
  constexpr char kRows[] =
#include "format/hooks.def"
#include "format/layers.def"
      ;
#undef HOOK
#undef LAYER
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
  kSeek,      // offset (where it is now), ret
  kMap,       // offset, count, prot and flags (of the mapping; the low and high half of file2), ret as pointer
  kExit,      // code, the account
  kExec,      // ret, the account: offset is what was read, count what was written; file2 is the program's Obstacle
  kSpawn,     // ret; count is the program's Obstacle
  kConfine,   // ret; count is the process's own Obstacle from here on
  kWait,      // ret, the child's account: status in count, offset what it read, file2 what it wrote
  kMessages,  // as kTransfer, ret is file2
  kDone,      // as kTransfer, ret is 0
  kRange,     // offset, count, ret: moves no bytes
  kLibc,      // size (absent: unknown) and ret, which stands in count; file2 is 1 where the size is unknown
  kRing,      // as kTransfer; file2 is 1 where the result is unknown
  kObject,    // as kTransfer, file2 is what lies in the file; ret is 0, the size kUnknownBytes where nobody knows
  kStart,     // the process record's members
};

struct Function {
  string_view symbol;
  string_view name;
  string_view category;
  string_view opening;  // of its events' lines, up to the process's number
  Direction direction;
  Shape shape;
  // What the kernel's rchar and wchar have no part of: bytes that go past read(2) and write(2) (docs/trace-format.md).
  bool uncounted;
  // A layer above: its bytes are seen again in the calls below it, and counted there.
  bool above;
};

// A size that the call does not tell, for kObject.
constexpr int64_t kUnknownBytes = INT64_MAX;

const Function &function(Fn f);

}  // namespace tailrace
