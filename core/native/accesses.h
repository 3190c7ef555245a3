// A partition of events -> accesses of files (rows of bursts.h), and what else the edge table has of events.
//
// Invariants: one pass; no text is seen here. Texts are codes, 0 where there is none. What a text means for the edge
// table (`openat` opens a file, MPIIO is recorded again below) is a set of bits for its code
// (analyzer/edges/event_fold.py).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bursts.h"
#include "format/functions.h"
#include "growing.h"
#include "intervals.h"
#include "patterns.h"

namespace tailrace::native {

enum TextColumn : size_t {
  kName,
  kCat,
  kFtype,
  kDir,
  kPath,
  kPath2,
  kFile1,
  kFile2,
  kWorkflow,
  kStage,
  kTask,
  kHost,
  kStart,
  kPieces,
  kSizes,
  kTextColumns
};
inline constexpr const char *kTextNames[kTextColumns] = {"name",  "cat",  "ftype", "dir",      "path",
                                                         "path2", "file", "file2", "workflow", "stage",
                                                         "task",  "host", "start", "pieces",   "sizes"};
// The columns whose codes have bits.
inline constexpr size_t kBitColumns = kDir + 1;

enum NumberColumn : size_t {
  kTs,
  kDur,
  kSize,
  kCount,
  kRet,
  kErrno,
  kFlags,
  kProt,
  kPid,
  kOffset,
  kCallCount,
  kSpan,    // of a line of totals, else -1
  kLatest,  // the same
  kFollowed,
  kPlacedCalls,  // of a line of totals, as the next
  kUnalignedCalls,
  kBlock,    // of the first file; 0: not known
  kOffset2,  // of the second file
  kTid,
  kAhead,   // read ahead by the C library, and dropped by this call
  kRun,     // on a processor until then, or -1
  kAtOnce,  // of a wait: it did not wait
  kNumberColumns
};
inline constexpr const char *kNumberNames[kNumberColumns] = {
    "ts",   "dur",  "size",     "count",  "ret",       "errno",   "flags",   "prot", "pid",   "offset", "calls",
    "span", "last", "followed", "placed", "unaligned", "blksize", "offset2", "tid",  "ahead", "run_ns", "at_once"};

// What a name, category, type or direction means; an event has the bits of all four. Names and categories have those of
// the core's tables (trait::Bit).
using namespace trait;
enum FileBit : uint32_t {
  // ftype
  kStreamType = 1U << 17,
  kRegular = 1U << 18,
  // dir
  kReads = 1U << 19,
  kWrites = 1U << 20,
  // an event name
  kSeeks = 1U << 24,
};
// ftype, and the category of sockets' own calls. The one bit of the core's tables that readers have no use for.
inline constexpr uint32_t kOfSocket = kUncounted;
struct BitName {
  const char *name;
  uint32_t bit;
};
inline constexpr BitName kBitNames[] = {
    {"opens", kOpens},       {"makes", kMakes},
    {"creat", kCreat},       {"truncates", kTruncates},
    {"maps", kMaps},         {"moves", kMoves},
    {"links", kLinks},       {"unlinks", kUnlinks},
    {"forks", kForks},       {"reaps", kReaps},
    {"waits", kWaits},       {"upper", kUpper},
    {"not_io", kNotIo},      {"mmap", kMmap},
    {"process", kProcess},   {"channel", kChannel},
    {"libc", kLibc},         {"stream", kStreamType},
    {"regular", kRegular},   {"reads", kReads},
    {"writes", kWrites},     {"new", kNew},
    {"nameless", kNameless}, {"buffered", kBuffered},
    {"seeks", kSeeks},       {"allocates", kAllocates},
    {"blocks", kBlocks},     {"socket", kOfSocket},
};

// What a call does, in the order of edge_table.CALLS.
enum Kind : int64_t { kRead, kWrite, kMeta, kStream, kKinds };

// What the time in it is, in the order of edge_table.KINDS.
enum Spent : int64_t {
  kReading,
  kWriting,
  kLookingUp,
  kFlushing,
  kLocking,
  kOnSocket,
  kSleeping,
  kPolling,
  kOnPipe,
  kAwaitingThread,
  kAwaitingSignal,
  kAwaitingChild,
  kSpents,
  kNothingSpent = -1  // its time is none of a call
};

struct Events {
  size_t rows = 0;
  const int32_t *code[kTextColumns] = {};
  const uint32_t *bits[kBitColumns] = {};      // by code
  size_t meanings[kBitColumns] = {};           // how many codes have bits
  const int64_t *number[kNumberColumns] = {};  // null: 0; pid, tid, offset, offset2, span, last and run_ns -1, calls 1
  size_t files = 0;                            // codes of file and file2 are below it
  std::vector<std::string_view> pieces;        // by code, "" for none: PieceReader's text
  std::vector<std::string_view> sizes;         // the same: histograms, as PatternFolder::add_totals takes them
};

enum CountColumn : size_t {
  kCountWho,
  kCountKind,
  kCountCalls,
  kFailed,
  kReadBytes,
  kWrittenBytes,
  kUnnamedBytes,
  kBufferedCalls,
  kCountFirst,
  kCountLast,
  kCountColumns
};
inline constexpr const char *kCountNames[kCountColumns] = {
    "who",           "kind",          "calls",          "failed",   "read_bytes",
    "written_bytes", "unnamed_bytes", "buffered_calls", "first_ns", "last_ns"};

enum AliasColumn : size_t { kAliasFile, kAliasPath, kAliasFirst, kAliasLast, kAliasColumns };
inline constexpr const char *kAliasNames[kAliasColumns] = {"file", "path", "first_ns", "last_ns"};

enum ThreadColumn : size_t { kThreadWho, kThreadTid, kThreadFirst, kThreadLast, kThreadColumns };
inline constexpr const char *kThreadNames[kThreadColumns] = {"who", "tid", "first_ns", "last_ns"};

// Events that are handed out as rows: what was done to names, and with processes.
enum Note : size_t {
  kCreated,
  kMadeNew,
  kMadeNameless,
  kUnlinked,
  kMoved,
  kLinked,
  kAppending,
  kFailedOpen,
  kSized,  // the file's size or blocks were changed
  kForked,
  kReaped,
  kAccounted,  // the kernel's account of a thread
  kNotes
};
inline constexpr const char *kNoteNames[kNotes] = {"create", "new",         "nameless", "unlink", "rename", "link",
                                                   "append", "failed open", "size",     "fork",   "wait",   "account"};

struct Noted {
  Growing<int64_t> row, who, file;  // the event; its actor; its file, -1 for none
};

struct EventFold {
  Growing<int64_t> actors;                  // the first row of each actor
  Growing<int64_t> file_codes;              // each file's code in `file`
  Growing<int64_t> file_types;              // its code in `ftype`; -1 where it was only seen as a second file
  Growing<int64_t> aliases[kAliasColumns];  // `path` is its code
  Growing<int64_t> counts[kCountColumns];
  Growing<int64_t> threads[kThreadColumns];  // each pair of who and tid once
  Intervals busy;                            // groups are a row of `threads` * kSpents + what the time is
  Noted notes[kNotes];
  PatternTables patterns;
  BurstTable edges;
};

// Throws std::length_error as fold_bursts does, std::out_of_range on a code that no text has, std::invalid_argument on
// a text that is no list of pieces or histogram.
EventFold fold_events(const Events &events, const BurstLimits &limits, size_t busy_limit);

}  // namespace tailrace::native
