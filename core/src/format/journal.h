// The journal: where records are kept between the call and the block.
//
//   a traced process                                   <place>/tailrace-<uid>/<run key>/   (mode 0700; best in memory,
//                                                      format/journal_place.h)
//   +----------------------------------+
//   | Session                          |               <host>-<pid>-<start>.0.tj   one file = one segment
//   |   ledger ------------------------|--------+      +-----------------------------------------------+
//   |   stem of the file names         |        +----->| SegmentHeader (4 KiB)                         |
//   |                                  |               |   identity: pid, start, host, trace file      |
//   |   Thread 1                       |    mmap       |   clock map, epoch, first_slot, losses        |
//   |     segment ---------------------|-------------->|   Ledger: in the process's first segment only |
//   |     next, limit -----------------|--------+      +-----------------------------------------------+
//   |   Thread 2                       |        +----->| Slot 0    | 64 bytes each, kSegmentSlots of   |
//   |     segment ---------------------|----+          | Slot 1    | them; allocated up to             |
//   +----------------------------------+    |          | ...       | allocated_slots                   |
//                                           |          +-----------------------------------------------+
//                                           +--------> <host>-<pid>-<start>.1.tj, .2.tj, ...
//                                                      sealer.board   what a process and the node's sealer tell each other
//                                                                     (format/sealer_board.h)
//                                                      <host>.host the run has a description of the host
//                                                                  (format/host_description.h)
//                                                      <uid>.uid   a user whose journals of the run are sealed, too
//
// Who writes and reads what:
// - A file belongs to one process at a time. It is made, grown and removed by that process (session/segment_file.h), or
//   sealed and removed by the sealer (format/seal_dead.cc) when the process is dead. Reserve files (Holding) may pass
//   to a forked child.
// - A slot is written by the thread that reserved it: by moving `next`, in one instruction, so signal handlers and the
//   code they interrupt never share a slot (session/segment.h).
// - Everything else in the header is written under the session's locks, but for the losses and the ledger, which are
//   atomic counters. A forked child without a journal writes the parent's `lost` and nothing else (`homeless`).
//
// Order of writes:
//   file         header, then `magic` (release): a file without it is not read
//   record       the names and the context that it refers to, then its fields, then its `mark` (release)
//   seal         blocks appended to the trace file, then `blocks` and `first_slot`. Where the process dies in between, the sealer
//                finds the block by its header (segment, epoch, slots), so no record is sealed twice
//   next epoch   clock map, thread, then a higher `epoch`, then `first_slot` 0: this empties the segment, nothing is erased
//   hand-over    session/hand_over.h
//
// Invariants:
// - A slot is valid when its mark carries the segment's epoch. A process may die at any instruction: a later reader of
//   the file sees every record whose call had returned, and no half-written one.
// - A segment can be read with nothing else: names and contexts are records of their own in each epoch.
// - Pages are allocated (fallocate) before they are written: a full file system is an error code here, never a SIGBUS.
// - One machine, one version of the library: the layout is no interchange format.
#pragma once

#include <sys/stat.h>

#include <atomic>

#include "base/clock.h"
#include "base/processor_time.h"
#include "base/text.h"
#include "format/functions.h"

namespace tailrace {

constexpr uint32_t kJournalMagic = 0x4C4A5254;  // "TRJL"
constexpr uint32_t kJournalVersion = 16 ^ table_number();
constexpr size_t kSegmentHeaderBytes = 4096;
#ifndef TAILRACE_SEGMENT_SLOTS  // tests/bench/study.py measures others
#define TAILRACE_SEGMENT_SLOTS 4096
#endif
constexpr uint32_t kSegmentSlots = TAILRACE_SEGMENT_SLOTS;  // about one block of 1 MiB of JSON
constexpr uint32_t kFirstSlots = 448;                       // what a short process allocates: 7 pages of slots

// The causes of docs/trace-format.md, "Losses", that the core counts.
enum class Loss { kNoJournal, kNotWritten, kTorn, kUnnamed, kDropped, kGaveWay, kCount };
extern const char *const kLossNames[static_cast<int>(Loss::kCount)];

// What a record is: a hook's number (format/functions.h), or one of these.
enum RecordKind : uint16_t {
  kEmptyRecord = 0,
  kNameRecord = 0xFF00,     // a file: NameSlot, then its path in text slots
  kContextRecord = 0xFF01,  // a context: TextSlot header, then its tags
  kProcessRecord = 0xFF02,  // args of the start or exit event that follows, as JSON members
  kThreadRecord = 0xFF03,   // the records that follow are of this thread
  kTextRecord = 0xFF04,     // bytes that belong to the record before
  kKeysRecord = 0xFF05,     // keys of the region of that number, as tags; before its record
  kMembersRecord = 0xFF06,  // further args of the event that began at that tick, as JSON members; before its record
                            // (dimensions, hyperslabs: a slot has no room, and other calls pay nothing)
  kStackRecord = 0xFF07,    // the hash of the call stack of the call in the next slot, whose frames are a name record
  kTimeRecord = 0xFF08,  // TimeSlot: the processor time of the child whose wait began at that tick; before its record
};

struct alignas(64) Slot {
  std::atomic<uint32_t> mark;  // kind | epoch << 16
  uint32_t context;
  uint64_t t0;  // ticks
  uint64_t t1;
  uint64_t file;   // 0: none
  uint64_t file2;  // second file, or object; of a stdio item call the item's size; of a mapping protection and flags
  int64_t offset;  // -1: unknown
  uint64_t count;  // bytes asked for; for the open family the flags
  int64_t ret;     // what the sealer's shape for the function says (format/seal.cc); negative is -errno
};
static_assert(sizeof(Slot) == 64, "the journal's layout");

// A file is the 64-bit hash of its path and identity, so a record needs no table of files, lock or lifetime; the name is
// written once an epoch.
// A record that carries text (name, context, process): this slot, then ceil(text_bytes / 56) text slots.
struct alignas(64) HeadSlot {
  std::atomic<uint32_t> mark;
  uint32_t id;  // context id, or the file's type
  uint64_t hash;
  uint32_t text_bytes;
  uint32_t tid;
  uint64_t dev;
  uint64_t ino;
  int64_t btime_ns;      // 0: the file system has none
  uint64_t block_bytes;  // FileIdentity
  uint64_t is_summed;    // of a name: totals stand for the calls on the file
};
static_assert(sizeof(HeadSlot) == 64, "the journal's layout");

// file2 of a wait (Shape::kBlocked): how many calls the slot stands for; the number of what was waited for
// (descriptors, or the thread's); whether the calls returned at once.
constexpr uint64_t blocked_word(uint32_t calls, uint32_t number, bool at_once) {
  return calls | static_cast<uint64_t>(number & 0xFFFFFF) << 32 | static_cast<uint64_t>(at_once) << 63;
}
constexpr uint32_t blocked_calls(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr uint32_t blocked_number(uint64_t word) { return static_cast<uint32_t>(word >> 32) & 0xFFFFFF; }
constexpr bool blocked_not(uint64_t word) { return word >> 63 != 0; }

// The kernel's account of a process that has ended (base/processor_time.h).
struct alignas(64) TimeSlot {
  std::atomic<uint32_t> mark;
  uint32_t spare;
  uint64_t t0;  // of the record that it belongs to
  ProcessTime time;
};
static_assert(sizeof(TimeSlot) == 64, "the journal's layout");

constexpr size_t kPathBytes = 4352;  // the longest name: PATH_MAX and some of a working directory
constexpr size_t kTextBytesPerSlot = 56;
struct alignas(64) TextSlot {
  std::atomic<uint32_t> mark;
  uint32_t spare;
  char text[kTextBytesPerSlot];
};
static_assert(sizeof(TextSlot) == 64, "the journal's layout");

// How many text slots are behind the head.
constexpr uint32_t text_slots(size_t text_bytes) {
  return static_cast<uint32_t>((text_bytes + kTextBytesPerSlot - 1) / kTextBytesPerSlot);
}

constexpr uint32_t make_mark(uint16_t kind, uint16_t epoch) { return kind | static_cast<uint32_t>(epoch) << 16; }
constexpr uint16_t mark_kind(uint32_t mark) { return static_cast<uint16_t>(mark); }
constexpr uint16_t mark_epoch(uint32_t mark) { return static_cast<uint16_t>(mark >> 16); }

// What glibc's dynamic linker reads from the beginning of a library by read(2). It maps nearly all the rest.
constexpr int64_t kReadPerLibrary = 832;

// What is subtracted from the kernel's account of the process (session/ledger.h). In the process's first segment.
enum Knowledge : uint32_t { kNotHere = 0, kKnown = 1, kUnknown = 2 };
struct Ledger {
  std::atomic<uint32_t> known{kNotHere};  // in the other segments; kUnknown: a part of the account, and so all of it
  std::atomic<uint32_t> unseen_ring{0};   // the process has, or had, an io_uring whose requests are not recorded
  std::atomic<uint32_t> executing{0};     // Execution, until the next image's core begins or execve fails
  std::atomic<uint32_t> untaken{0};       // results of POSIX asynchronous requests that could not be recorded
  std::atomic<uint64_t> base[2]{};
  std::atomic<uint64_t> own[2]{};
  std::atomic<uint64_t> reaped[2]{};
  std::atomic<int64_t> ahead{0};
  std::atomic<int64_t> ahead_left{0};    // of this image, before it is replaced, with what its streams hold then
  std::atomic<int64_t> ahead_before{0};  // of earlier images
  std::atomic<uint64_t> left[2]{};       // this image's account, before it is replaced
  std::atomic<uint64_t> done[2]{};       // the accounts of earlier images
  std::atomic<int64_t> base_loaded{0};   // bytes that the dynamic linker has read
  std::atomic<int64_t> loaded{0};        // the same at the last dlopen

  bool is_known() const { return known.load(std::memory_order_relaxed) == kKnown; }
};

// How a process goes on as another program, or begins as one: with the library in its environment, or without.
enum Execution : uint32_t { kNoExecution = 0, kWithLibrary = 1, kWithoutLibrary = 2 };

// The owner of a segment. A process makes reserve segments before it gives up the right to make any; the process or a
// child that it forked takes them, whichever comes first (session/reserve.h). A full segment is handed over to the node's
// sealer, and is a spare one of its process when it is sealed (session/hand_over.h).
enum Holding : uint32_t { kHeld = 0, kReserve = 1, kWithdrawn = 2, kHanded = 3, kSpare = 4 };

// Whether the process has written blocks of the segment to its own trace file; kNow: it is at it, or was when a thread's
// execve ended the others.
enum SealedItself : uint32_t { kNothing = 0, kBefore = 1, kNow = 2 };

// What a sealer writes into a journal before it appends a block of it to a file that has blocks of many processes: whether
// a dead sealer's block is whole can be seen at that one place.
struct BlockPlan {
  uint64_t offset;
  uint32_t epoch;  // 0: none
  char file[268];  // its name in the run's trace directory
};

struct SegmentHeader {
  std::atomic<uint32_t> magic;  // 0 while the header is written
  uint32_t version;
  uint32_t slots;  // capacity
  std::atomic<uint32_t> allocated_slots;
  uint32_t segment;
  int32_t pid;
  uint64_t start_realtime_ns;  // with start: the process's origin of time
  uint64_t start_monotonic_ns;
  uint64_t reference_rate_q32;  // ticks to ns over a longer span than this process's life
  uint32_t clock_kind;
  std::atomic<uint32_t> epoch;          // from 1; the low 16 bits are in the marks
  uint64_t from_ticks;                  // where this epoch's clock map begins
  uint64_t from_ns;                     // monotonic
  uint64_t rate_before_q32;             // of the clock map that ended there
  std::atomic<uint32_t> first_slot;     // the first slot that is not sealed
  uint32_t first_tid;                   // the thread of the first record
  std::atomic<uint32_t> holding;        // Holding
  std::atomic<uint32_t> homeless;       // a forked child without a journal counts its losses in `lost`
  uint32_t detail;                      // DetailKind of what it is sealed to (format/choices.h)
  uint64_t detail_budget;               // bytes, with kAuto
  std::atomic<uint32_t> left;           // its process ended, or is about to, and left it to the node's sealer
  std::atomic<uint32_t> sealed_itself;  // SealedItself
  std::atomic<uint32_t> from_reserve;   // the file may have the name of another process
  std::atomic<uint32_t> claimed;        // by the sealer, while it seals what was handed over
  std::atomic<uint32_t> taken_back;     // by the process, at its end
  uint64_t until_ticks;                 // where the clock map of a handed segment's epoch ends; 0: it was not handed
  uint64_t until_ns;
  BlockPlan plan;
  std::atomic<uint32_t> blocks;  // of the segment so far, in whatever file
  // A call that may move much, while it runs: its function (0: none) and begin (session/record.h, LongCall).
  std::atomic<uint32_t> inside;
  uint64_t inside_ticks;
  uint64_t pid_namespace;  // of `pid`: the inode of /proc/PID/ns/pid; 0: unknown
  std::atomic<uint64_t> lost[static_cast<int>(Loss::kCount)];
  Ledger ledger;
  uint64_t file_device, file_inode;  // of this file: who has it mapped finds out whether it still has its name
  uint32_t host_bytes;
  uint32_t path_bytes;
  char host[256];
  char trace_path[3072];  // the process's trace file

  string_view host_name() const { return {host, host_bytes}; }
  string_view trace_file() const { return {trace_path, path_bytes}; }
  Slot *slot(uint32_t i) { return reinterpret_cast<Slot *>(reinterpret_cast<char *>(this) + kSegmentHeaderBytes) + i; }
};
static_assert(sizeof(SegmentHeader) <= kSegmentHeaderBytes, "the journal's layout");

constexpr size_t segment_bytes(uint32_t slots) {
  return kSegmentHeaderBytes + static_cast<size_t>(slots) * sizeof(Slot);
}

// Whether `bytes` at `offset` touch a block more than as many at the begin of one.
constexpr bool touches_block_more(int64_t offset, int64_t bytes, int64_t block) {
  return offset % block + (bytes - 1) % block >= block;
}

// The type of a file that a record names. kObject is an object inside a file (layers/layers.h); its name is no path.
enum class FileType : uint32_t {
  kNone,
  kRegular,
  kDirectory,
  kLink,
  kCharacter,
  kBlock,
  kFifo,
  kSocket,
  kAnonymous,
  kObject
};
extern const char *const kFileTypeNames[10];

struct FileIdentity {
  FileType type = FileType::kNone;
  uint64_t dev = 0;  // major << 32 | minor
  uint64_t ino = 0;
  int64_t btime_ns = 0;
  uint32_t block_bytes = 0;  // st_blksize of a regular file, 0: not known. No hash depends on it
};
FileType type_of_mode(unsigned mode);
FileIdentity identity_of(const struct statx &s);

// Writes a head and its text into 1 + text_slots(text.size()) slots, and marks them last to first, so that the head is
// only valid when all of it is. Of `head` the text's size and the mark are not read.
void write_text_record(Slot *slots, RecordKind kind, uint16_t epoch, const HeadSlot &head, string_view text);

// A file <uid>.uid in the journal directory: journals in that user's directory of the run are sealed by this user, too.
constexpr string_view kUserSuffix = ".uid";

// fhash: never 0.
uint64_t file_hash(string_view path, const FileIdentity &identity);

// <dir>/tailrace-<uid>/<key of the run directory>
void write_journal_directory(Writer &out, string_view journal_dir, unsigned uid, string_view run_dir);
// The same behind <dir>, which `out` has already.
void write_journal_directory(Writer &out, unsigned uid, string_view run_dir);
// The inode of the calling process's pid namespace; 0 without /proc.
uint64_t pid_namespace();
// The host as names of files have it: without "-" and what a shell would take for something else.
void write_file_host(Writer &out, string_view host);
// <host>-<pid>-<start>, the stem of trace files and journals
void write_process_stem(Writer &out, string_view host, int pid, uint64_t start_ns);

}  // namespace tailrace
