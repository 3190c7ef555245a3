// See accesses.h.
#include "accesses.h"

#include <sys/file.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "numbering.h"
#include "pieces.h"

namespace tailrace::native {

namespace {

// Flags as the kernel takes them (open(2), mmap(2)): the generic values, independent of this machine's headers.
constexpr int64_t kAccessMode = 03, kCreate = 0100, kExclusive = 0200, kTruncate = 01000, kAppend = 02000,
                  kTemporary = 020000000;
// Modes of fallocate(2): those that change which bytes the file has.
constexpr int64_t kPunchHole = 0x02, kCollapse = 0x08, kZero = 0x10, kInsert = 0x20;
constexpr int64_t kProtWrite = 0x2, kMapType = 0xF, kMapShared = 0x1, kMapSharedValidate = 0x3;

constexpr int64_t kUnknown = -1;  // an offset, or a file that is none

struct ActorKey {
  int64_t pid;
  int32_t workflow, stage, task, host, start;

  bool operator==(const ActorKey &o) const {
    return pid == o.pid && task == o.task && stage == o.stage && workflow == o.workflow && host == o.host &&
           start == o.start;
  }
  uint64_t hash() const {
    const uint64_t tags = static_cast<uint64_t>(static_cast<uint32_t>(task)) << 32 | static_cast<uint32_t>(stage);
    const uint64_t run = static_cast<uint64_t>(static_cast<uint32_t>(workflow)) << 32 | static_cast<uint32_t>(host);
    const uint64_t process = static_cast<uint64_t>(pid) << 32 ^ static_cast<uint32_t>(start);
    return mixed(mixed(mixed(process) ^ tags) ^ run);
  }
};

struct AliasKey {
  int32_t file, path;

  bool operator==(const AliasKey &o) const { return file == o.file && path == o.path; }
  uint64_t hash() const {
    return mixed(static_cast<uint64_t>(static_cast<uint32_t>(file)) << 32 | static_cast<uint32_t>(path));
  }
};

struct ThreadKey {
  int64_t who, tid;

  bool operator==(const ThreadKey &o) const { return who == o.who && tid == o.tid; }
  uint64_t hash() const { return mixed(static_cast<uint64_t>(who) << 32 ^ static_cast<uint64_t>(tid)); }
};

// Calls and bytes of an actor and kind.
struct Cell {
  int64_t value[kCountColumns];
};

class EventFolder {
 public:
  EventFolder(const Events &events, const BurstLimits &limits) : e_(events), limits_(limits), file_(events.files, -1) {
    for (Growing<int64_t> *column : {&busy_group_, &busy_start_, &busy_end_, &busy_weight_})
      column->reserve(events.rows);
    accesses_.reserve(events.rows);
  }

  EventFold run(size_t busy_limit) {
    for (size_t row = 0; row < e_.rows; ++row) event(row);
    put_counts();
    out_.patterns = std::move(patterns_).take();
    IntervalView busy{busy_group_.data(), busy_start_.data(), busy_end_.data()};
    busy.size = busy_group_.size();
    busy.weight = busy_weight_.data();
    out_.busy = unite_groups({busy}, busy_limit).rows;
    out_.edges = totals_.bursts.size() == 0 ? fold_accesses(accesses_, out_.actors.size(), limits_) : fold_both();
    return std::move(out_);
  }

 private:
  // Accesses and the pieces of totals. A cap is applied once, to both: the result is that of all calls.
  BurstTable fold_both() const {
    constexpr BurstLimits kEach{std::numeric_limits<int64_t>::min(), kNoLimit, kNoLimit, kNoLimit};
    const size_t actors = out_.actors.size();
    const BurstTable each = fold_accesses(accesses_, actors, kEach);
    std::vector<int64_t> same(std::max(actors, out_.file_codes.size()));
    std::iota(same.begin(), same.end(), 0);
    return fold_bursts({part_of(each, same.data()), part_of(totals_, same.data())}, actors, limits_);
  }

  static BurstPart part_of(const BurstTable &table, const int64_t *same) {
    const auto view = [](const Intervals &rows) {
      return IntervalView{rows.group.data(), rows.start.data(), rows.end.data(), rows.weight.data(), rows.group.size()};
    };
    BurstPart part;
    for (size_t i = 0; i < kBurstColumns; ++i) part.bursts.column[i] = table.bursts.column[i].data();
    part.bursts.fresh = table.bursts.fresh.data();
    part.bursts.cut = table.bursts.cut.data();
    part.bursts.hides = table.bursts.hides.data();
    part.bursts.exact = table.bursts.exact.data();
    part.bursts.size = table.bursts.size();
    part.extents = view(table.extents);
    part.times = view(table.times);
    part.who = part.file = same;
    return part;
  }

  struct Call {
    size_t row;
    uint32_t bits;
    bool ok;
    int64_t who, file, file2;
    int64_t begin_ns, end_ns, last_begin_ns;
    int32_t pieces;

    bool is(uint32_t any) const { return (bits & any) != 0; }
  };

  int64_t number(const Call &call, NumberColumn column) const { return e_.number[column][call.row]; }
  int32_t code(size_t row, TextColumn column) const { return e_.code[column][row]; }

  uint32_t meaning(size_t row, TextColumn column) const {
    return e_.bits[column][checked(code(row, column), e_.meanings[column])];
  }

  static size_t checked(int32_t code, size_t codes) {
    if (code < 0 || static_cast<size_t>(code) >= codes) throw std::out_of_range("an event has a code that no text has");
    return static_cast<size_t>(code);
  }

  void event(size_t row) {
    Call call;
    call.row = row;
    call.bits = meaning(row, kCat);
    const bool application = call.is(kApplication);
    if (!application) call.bits |= meaning(row, kName) | meaning(row, kFtype) | meaning(row, kDir);
    call.ok = number(call, kErrno) == 0 && !(call.is(kMoves | kLinks | kUnlinks) && number(call, kRet) < 0);
    call.who = actor(row);
    call.begin_ns = number(call, kTs);
    const int64_t span = number(call, kSpan);
    call.end_ns = plus(call.begin_ns, span < 0 ? number(call, kDur) : span);
    call.last_begin_ns = plus(call.begin_ns, std::max<int64_t>(number(call, kLatest), 0));
    see_thread(call);
    call.pieces = code(row, kPieces);
    if (call.is(kBlocks)) {
      call.file = call.file2 = kUnknown;  // what is waited for is not used
    } else {
      see_files(&call);
    }
    count(call);
    if (application) return;
    if (call.pieces != 0) {
      fold_pieces(call);
    } else if (call.ok && !call.is(kUpper)) {
      access(call);
    }
    const int64_t ahead = number(call, kAhead);
    const bool is_unmoving = call.is(kOpens) || call.is(kSeeks) || ahead != 0;
    if (call.ok && call.file >= 0 && is_unmoving && call.is(kRegular) && !call.is(kUpper)) {
      const int64_t calls = number(call, kCallCount);
      patterns_.add_unmoving(call.who, call.file, kMeta, call.is(kOpens) ? calls : 0, call.is(kSeeks) ? calls : 0,
                             ahead);
    }
    constexpr uint32_t kNoted =
        kOpens | kMakes | kMoves | kLinks | kUnlinks | kNew | kTruncates | kAllocates | kProcess;
    if (call.is(kNoted)) note(call);
  }

  int64_t actor(size_t row) {
    const ActorKey key{e_.number[kPid][row], code(row, kWorkflow), code(row, kStage),
                       code(row, kTask),     code(row, kHost),     code(row, kStart)};
    if (actors_.size() > 0 && actors_[last_actor_] == key) return last_actor_;
    last_actor_ = actors_.number(key);
    if (last_actor_ == out_.actors.size()) {
      out_.actors.push_back(static_cast<int64_t>(row));
      cells_.resize(cells_.size() + kKinds);
    }
    return last_actor_;
  }

  void see_thread(const Call &call) {
    const ThreadKey key{call.who, number(call, kTid)};
    if (threads_.size() == 0 || !(threads_[last_thread_] == key)) last_thread_ = threads_.number(key);
    if (last_thread_ == out_.threads[kThreadWho].size()) {
      const int64_t made[kThreadColumns] = {key.who, key.tid, call.begin_ns, call.end_ns};
      for (size_t i = 0; i < kThreadColumns; ++i) out_.threads[i].push_back(made[i]);
    }
    int64_t &first = out_.threads[kThreadFirst][last_thread_], &last = out_.threads[kThreadLast][last_thread_];
    first = std::min(first, call.begin_ns);
    last = std::max(last, call.end_ns);
  }

  // Files and the names they were seen under. A call of a layer begins before the file is opened in it. After a rename
  // or a link the file has the new name: it counts as later than the old name, which is in the same event.
  void see_files(Call *call) {
    const int32_t path = code(call->row, kPath), path2 = code(call->row, kPath2);
    const int32_t file = code(call->row, kFile1), file2 = code(call->row, kFile2);
    call->file = call->file2 = kUnknown;
    const int64_t seen_ns = call->is(kUpper) ? call->end_ns : call->begin_ns;
    const int64_t last_ns = call->is(kUpper) ? call->end_ns : call->last_begin_ns;
    if (file > 0) {
      call->file = number_of(file);
      int64_t &type = out_.file_types[static_cast<size_t>(call->file)];
      if (type < 0) type = code(call->row, kFtype);
      see_name(call->file, path, seen_ns);
      if (last_ns > seen_ns) see_name(call->file, path, last_ns);
    }
    if (file2 > 0) {
      call->file2 = number_of(file2);
      see_name(call->file2, path2, seen_ns);
    }
    if (file > 0 && path2 > 0 && call->ok && call->is(kMoves | kLinks)) {
      see_name(call->file, path2, plus(call->begin_ns, 1));
    }
  }

  int64_t number_of(int32_t code) {
    int32_t &file = file_[checked(code, file_.size())];
    if (file < 0) {
      file = static_cast<int32_t>(out_.file_codes.size());
      out_.file_codes.push_back(code);
      out_.file_types.push_back(-1);
      name_of_.push_back(UINT32_MAX);
    }
    return file;
  }

  void see_name(int64_t file, int32_t path, int64_t ts) {
    const AliasKey key{static_cast<int32_t>(file), path};
    uint32_t &alias = name_of_[static_cast<size_t>(file)];
    if (alias == UINT32_MAX || !(names_[alias] == key)) alias = names_.number(key);
    if (alias == out_.aliases[kAliasFile].size()) {
      const int64_t made[kAliasColumns] = {file, path, ts, ts};
      for (size_t i = 0; i < kAliasColumns; ++i) out_.aliases[i].push_back(made[i]);
    }
    int64_t &first = out_.aliases[kAliasFirst][alias], &last = out_.aliases[kAliasLast][alias];
    first = std::min(first, ts);
    last = std::max(last, ts);
  }

  void count(const Call &call) {
    const bool io = !call.is(kNotIo);
    const int64_t kind = call.is(kBlocks)                            ? kMeta
                         : call.is(kStreamType) || call.is(kChannel) ? kStream
                         : call.is(kWrites)                          ? kWrite
                         : call.is(kReads)                           ? kRead
                                                                     : kMeta;
    Cell &cell = cells_[static_cast<size_t>(call.who * kKinds + kind)];
    if (cell.value[kCountWho] == 0) {
      cell.value[kCountWho] = 1;
      cell.value[kCountFirst] = call.begin_ns;
      cell.value[kCountLast] = call.end_ns;
    }
    cell.value[kCountFirst] = std::min(cell.value[kCountFirst], call.begin_ns);
    cell.value[kCountLast] = std::max(cell.value[kCountLast], call.end_ns);
    if (const Spent spent = spent_on(call); spent != kNothingSpent) {
      const int64_t group = static_cast<int64_t>(last_thread_) * kSpents + spent;
      if (call.pieces == 0) {
        const int64_t time = std::min(number(call, kDur), minus(call.end_ns, call.begin_ns));
        put_busy(group, {call.begin_ns, call.end_ns, time});
      }
      busy_group_of_pieces_ = group;
    }
    if (io || (call.is(kUpper) && !call.is(kApplication))) {
      const FunctionName name{code(call.row, kCat), code(call.row, kName)};
      const int64_t bytes = call.ok ? number(call, kSize) : 0, calls = number(call, kCallCount);
      patterns_.add_function(call.who, kind, name, calls, call.ok ? 0 : 1, bytes, number(call, kDur));
      // A call of a layer that moves nothing may be one whose bytes are not known.
      if (call.ok && calls > 0 && call.is(kReads | kWrites) && (bytes > 0 || !call.is(kUpper))) {
        const bool known = call.pieces == 0 && code(call.row, kSizes) == 0;
        patterns_.add_length(kind, name, known ? bytes / calls : -1, calls);
      }
    }
    if (!io) return;
    add(&cell, kCountCalls, number(call, kCallCount));
    add(&cell, kFailed, call.ok ? 0 : 1);
    if (call.is(kBuffered)) add(&cell, kBufferedCalls, number(call, kCallCount));
    const int64_t size = call.ok ? number(call, kSize) : 0;
    const int64_t read = call.is(kReads) ? size : 0, written = call.is(kWrites) ? size : 0;
    add(&cell, kReadBytes, read);
    add(&cell, kWrittenBytes, written);
    const bool both = call.is(kReads) && call.is(kWrites);
    if (!call.is(kLibc) && (call.file < 0 || (both && call.file2 < 0))) add(&cell, kUnnamedBytes, plus(read, written));
  }

  // Whoever does not wait, releases, or gets the lock at once only asks the kernel, which takes a microsecond.
  bool has_waited_for_lock(const Call &call) const {
    constexpr int64_t kAtLeastNs = 20'000;
    const int64_t kind = number(call, kFlags), calls = std::max<int64_t>(number(call, kCallCount), 1);
    return kind != 0 && (kind & (LOCK_NB | LOCK_UN)) == 0 && number(call, kDur) / calls >= kAtLeastNs;
  }

  // A call that awaits descriptors and got a pipe or socket waited for its other end, whatever function it was made by.
  Spent spent_on(const Call &call) const {
    const uint32_t time = call.bits & kTimeKind;
    if (call.is(kProcess)) return call.is(kWaits) || time == kAwaitsChild ? kAwaitingChild : kNothingSpent;
    if (call.is(kNotIo) && (!call.is(kBlocks) || number(call, kAtOnce) != 0)) return kNothingSpent;
    const Spent channel = call.is(kOfSocket) ? kOnSocket : kOnPipe;
    switch (time) {
      case kFlushes: return kFlushing;
      case kSleeps: return kSleeping;
      case kAwaitsThread: return kAwaitingThread;
      case kAwaitsSignal: return kAwaitingSignal;
      case kPolls: return call.is(kChannel) && number(call, kRet) > 0 ? channel : kPolling;
      case kLocks:
        if (has_waited_for_lock(call)) return kLocking;
        break;
      default: break;
    }
    if (call.is(kBlocks)) return kNothingSpent;
    if (call.is(kStreamType) || call.is(kChannel)) return channel;
    return call.is(kWrites) ? kWriting : call.is(kReads) ? kReading : kLookingUp;
  }

  void put_busy(int64_t group, const Interval &time) {
    busy_group_.push_back(group);
    busy_start_.push_back(time.start);
    busy_end_.push_back(time.end);
    busy_weight_.push_back(time.weight);
  }

  static void add(Cell *cell, CountColumn column, int64_t value) {
    cell->value[column] = plus(cell->value[column], value);
  }

  // Bursts, and the time in calls of all functions of the line's file and direction.
  void fold_pieces(const Call &call) {
    const bool is_access = call.file >= 0 && call.ok && !call.is(kUpper) && call.is(kReads | kWrites);
    const Kind direction = call.is(kWrites) ? kWrite : kRead;
    if (is_access) {
      patterns_.add_totals(call.who, call.file, direction, number(call, kCallCount), number(call, kFollowed),
                           e_.sizes[checked(code(call.row, kSizes), e_.sizes.size())]);
      patterns_.add_placed(call.who, call.file, direction, number(call, kPlacedCalls), number(call, kUnalignedCalls),
                           number(call, kBlock));
    }
    PieceReader reader(e_.pieces[checked(call.pieces, e_.pieces.size())], call.begin_ns);
    while (reader.next(&piece_)) {
      const Interval time{piece_.first_ns, piece_.last_ns,
                          std::min(piece_.busy_ns, minus(piece_.last_ns, piece_.first_ns))};
      if (!call.is(kNotIo)) put_busy(busy_group_of_pieces_, time);
      if (!is_access) continue;
      patterns_.add_piece(call.who, call.file, direction, piece_);
      const auto number = static_cast<int64_t>(totals_.bursts.size());
      const int64_t values[kBurstColumns] = {call.who,        call.file,    direction,    time.start, time.end,
                                             piece_.bytes,    piece_.calls, piece_.loose, 0,          0,
                                             piece_.backward, piece_.from,  piece_.to};
      for (size_t i = 0; i < kBurstColumns; ++i) totals_.bursts.column[i].push_back(values[i]);
      totals_.bursts.fresh.push_back(false);
      totals_.bursts.cut.push_back(false);
      totals_.bursts.hides.push_back(false);
      totals_.bursts.exact.push_back(true);
      for (const Interval &range : piece_.ranges) totals_.extents.add(number, range);
      totals_.times.add(number, time);
    }
  }

  // An event is up to three accesses: what it moves, a truncation or cut, a mapping.
  void access(const Call &call) {
    const int64_t offset = number(call, kOffset), size = number(call, kSize), calls = number(call, kCallCount);
    const bool reads = call.is(kReads), writes = call.is(kWrites);
    const bool relays = reads && writes && number(call, kRet) == size;  // not FICLONE, which copies nothing: it is 0
    if (call.file >= 0) {
      if (reads) put(call, call.file, kRead, {offset, size, calls, 0, false, relays});
      if (writes && !reads) put(call, call.file, kWrite, {offset, size, calls, 0, false});
      if (truncates(call)) put(call, call.file, kWrite, {kUnknown, 0, 0, 0, true});
      if (cuts(call)) put_cut(call);
      if (!reads && !writes && call.is(kMmap) && call.is(kRegular)) {
        const int64_t mapped = number(call, kCount);
        if (call.is(kMaps)) put(call, call.file, kRead, {offset, 0, calls, mapped, false});
        if (stores(call)) put(call, call.file, kWrite, {offset, 0, calls, mapped, false});
      }
    }
    const int64_t target = call.file2 < 0 ? call.file : call.file2;
    const int64_t to = std::max<int64_t>(number(call, kOffset2), kUnknown);
    if (reads && writes && target >= 0) put(call, target, kWrite, {to, size, calls, 0, false, relays});
  }

  bool truncates(const Call &call) const {
    const int64_t flags = number(call, kFlags);
    return call.is(kCreat) || (call.is(kTruncates) && number(call, kOffset) == 0) ||
           (call.is(kOpens) && (flags & kTruncate) != 0 && (flags & kAccessMode) != 0);
  }

  // Whether it ends bytes of the file, but not all.
  bool cuts(const Call &call) const {
    if (call.is(kTruncates)) return number(call, kOffset) > 0 && number(call, kCount) > 0;
    return call.is(kAllocates) && (number(call, kFlags) & (kPunchHole | kCollapse | kZero | kInsert)) != 0;
  }

  // From its end on: what the actor writes then comes after it.
  void put_cut(const Call &call) {
    accesses_.push_back({call.end_ns, call.end_ns, 0, 0, 0, kUnknown, static_cast<int32_t>(call.who),
                         static_cast<int32_t>(call.file), static_cast<uint8_t>(kWrite), false, true, false});
  }

  // Whether what is stored through the mapping reaches the file.
  bool stores(const Call &call) const {
    const int64_t type = number(call, kFlags) & kMapType;
    return (number(call, kProt) & kProtWrite) != 0 && (type == kMapShared || type == kMapSharedValidate);
  }

  struct Moved {
    int64_t offset, bytes, calls, mapped;
    bool fresh;
    bool relayed = false;
  };

  void put(const Call &call, int64_t file, Kind direction, const Moved &moved) {
    const int64_t block = file == call.file ? number(call, kBlock) : 0;
    if (moved.mapped == 0) patterns_.add(call.who, file, direction, moved.offset, moved.bytes, moved.calls, block);
    accesses_.push_back({call.begin_ns, call.end_ns, moved.bytes, moved.calls, moved.mapped, moved.offset,
                         static_cast<int32_t>(call.who), static_cast<int32_t>(file), static_cast<uint8_t>(direction),
                         moved.fresh, false, moved.relayed});
  }

  void note(const Call &call) {
    if (call.ok && call.file >= 0) {
      const int64_t flags = number(call, kFlags);
      const bool creates = call.is(kOpens) && (flags & kCreate) != 0 && (flags & kAccessMode) != 0;
      if (creates || call.is(kMakes)) put(call, kCreated);
      const bool temporary = call.is(kOpens) && (flags & kTemporary) != 0;
      const bool exclusive = call.is(kOpens) && (flags & kCreate) != 0 && (flags & kExclusive) != 0;
      if (call.is(kNew) || temporary || exclusive) put(call, kMadeNew);
      if (call.is(kNameless) || temporary) put(call, kMadeNameless);
      if (call.is(kOpens) && (flags & kAppend) != 0 && (flags & kAccessMode) != 0) put(call, kAppending);
      if (call.is(kUnlinks)) put(call, kUnlinked);
      if (call.is(kMoves)) put(call, kMoved);
      if (call.is(kLinks)) put(call, kLinked);
      if (call.is(kTruncates | kAllocates) && number(call, kOffset) >= 0) put(call, kSized);
    }
    if (!call.ok && call.is(kOpens)) put(call, kFailedOpen);
    if (call.ok && call.is(kProcess) && number(call, kRet) > 0) {
      if (call.is(kForks)) put(call, kForked);
      if (call.is(kReaps)) put(call, kReaped);
    }
    if (call.is(kProcess) && !call.is(kReaps) && number(call, kRun) >= 0) put(call, kAccounted);
  }

  void put(const Call &call, Note note) {
    Noted &noted = out_.notes[note];
    noted.row.push_back(static_cast<int64_t>(call.row));
    noted.who.push_back(call.who);
    noted.file.push_back(call.file);
  }

  void put_counts() {
    for (size_t i = 0; i < cells_.size(); ++i) {
      Cell &cell = cells_[i];
      if (cell.value[kCountWho] == 0) continue;
      cell.value[kCountWho] = static_cast<int64_t>(i / kKinds);
      cell.value[kCountKind] = static_cast<int64_t>(i % kKinds);
      for (size_t column = 0; column < kCountColumns; ++column) out_.counts[column].push_back(cell.value[column]);
    }
  }

  const Events &e_;
  const BurstLimits limits_;
  Numbering<ActorKey> actors_;
  uint32_t last_actor_ = 0;
  std::vector<int32_t> file_;      // by the code of its text; -1 before it was seen
  std::vector<uint32_t> name_of_;  // the alias under which each file was seen last
  Numbering<AliasKey> names_;
  Numbering<ThreadKey> threads_;
  uint32_t last_thread_ = 0;
  std::vector<Cell> cells_;  // of each actor and kind; kCountWho says whether it was seen
  Growing<int64_t> busy_group_, busy_start_, busy_end_, busy_weight_;
  int64_t busy_group_of_pieces_ = 0;
  std::vector<Access> accesses_;
  BurstTable totals_;  // the pieces of totals
  Piece piece_;
  PatternFolder patterns_;
  EventFold out_;
};

}  // namespace

EventFold fold_events(const Events &events, const BurstLimits &limits, size_t busy_limit) {
  return EventFolder(events, limits).run(busy_limit);
}

}  // namespace tailrace::native
