// Records: the functions by which hooks record calls. A hook makes a Call before it calls the real function and passes
// it to one of these functions afterwards.
//
// Invariants:
// - In an untraced process both cost a load and a branch.
// - None of them changes errno.
#pragma once

#include <errno.h>

#include "format/functions.h"
#include "format/program.h"
#include "session/files.h"
#include "session/memory_sharers.h"
#include "session/session.h"

namespace tailrace {

// The begin of a call; false where this thread records nothing, or this process no longer does (session/give_way.h).
class Call {
 public:
  __attribute__((always_inline)) Call() : t0_(0) {
    if (!enter()) return;
    const auto frame = reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa());
    if (__builtin_expect(frame > t_innermost_frame, 0)) leave_functions(frame);
    t0_ = now_ticks();
  }
  // A call that began before the object was made.
  explicit Call(uint64_t t0) : t0_(enter() ? t0 : 0) {}
  explicit operator bool() const { return t0_ != 0 && is_recording(); }
  // For its record; null where there is none.
  Thread *thread() const { return t0_ ? enter() : nullptr; }
  uint64_t t0() const { return t0_; }

 private:
  uint64_t t0_;
};

// A call that may move so many bytes is marked while it runs: a signal that ends the process then leaves no record of
// it.
constexpr uint64_t kLongCallBytes = 64 << 10;
class LongCall {
 public:
  __attribute__((always_inline)) LongCall(const Call &call, Fn fn, uint64_t bytes) {
    if (__builtin_expect(bytes >= kLongCallBytes, 0)) begin(call, fn);
  }
  __attribute__((always_inline)) ~LongCall() {
    if (__builtin_expect(segment_ != nullptr, 0)) segment_->inside.store(0, std::memory_order_relaxed);
  }
  LongCall(const LongCall &) = delete;
  LongCall &operator=(const LongCall &) = delete;

 private:
  void begin(const Call &call, Fn fn);

  SegmentHeader *segment_ = nullptr;
};

// Whether a call that moves bytes is recorded: of this thread, or beside another one.
inline bool is_recorded(const Call &call) { return call || t_sharers || is_vfork_child(); }

constexpr int64_t kHere = -1;     // at the descriptor's position, which the call moves
constexpr int64_t kNowhere = -2;  // the call has no position

constexpr uint64_t kNoCount = UINT64_MAX;  // the call requests no number: `count` is left out

struct Event {
  Fn fn = Fn::kNone;
  uint64_t file = 0;
  uint64_t file2 = 0;
  int64_t offset = -1;
  uint64_t count = 0;
  int64_t ret = 0;
};

// The result of a call as a record has it: the value, or -errno.
inline int64_t result_of(int64_t ret) { return ret < 0 ? -static_cast<int64_t>(errno) : ret; }

// Bytes moved through a descriptor: `at` is kHere or an explicit offset.
void record_transfer(const Call &call, Fn fn, int fd, int64_t at, uint64_t count, int64_t ret);
// Bytes written through a descriptor (session/write_place.h).
class WritePlace;
void record_written(const Call &call, Fn fn, int fd, const WritePlace &place, uint64_t count, int64_t ret);
// Bytes copied from one descriptor to another. The offset of an end is kHere, kNowhere or where its first byte is; that
// of the target may be what `place` finds.
struct CopyEnd {
  int fd;
  int64_t at;
  const WritePlace *place = nullptr;
};
void record_copy(const Call &call, Fn fn, const CopyEnd &from, const CopyEnd &to, uint64_t count, int64_t ret);
// A call on a descriptor.
void record_fd(const Call &call, Fn fn, int fd, int64_t ret, uint64_t count = 0, int64_t offset = -1,
               uint64_t file2 = 0);
// A call on an open file that the hook looked up itself. Returns its slot, which may be amended as long as the thread's
// segment and epoch are the same; null: it was passed on, or there was no room.
Slot *record_file(const Call &call, const Event &event, OpenFile *file);
// A call that names one or two files; b may be null.
void record_path(const Call &call, Event event, const NamedFile *a, const NamedFile *b = nullptr);
// A call of a layer (layers/layers.h) that ended at `t1`; `members` are further args of its line, as JSON members.
void record_above(const Call &call, uint64_t t1, Event event, const NamedFile *file, const NamedFile *object,
                  string_view members = {});
// A call without a file.
void record_plain(const Call &call, Fn fn, int64_t ret);
// In a context: it begins, or ends; `time` is the thread's until then. Without a stack, and it never seals because the
// thread's records are due.
void record_context(Thread *t, Fn fn, const Context *context, uint64_t at, const ProcessorTime &time);
// The life of a thread of this process until now, in a slot of the calling thread, in the same way.
void record_thread(Thread *t, uint32_t tid, uint64_t began_ticks, const ProcessorTime &time);

// A call that closes a descriptor. Made before the real call: another thread may open the number right after it.
class Closing {
 public:
  Closing(const Call &call, int fd) : known_(call && take_file(fd, file_)) {}
  // dropped: of a stream, what it had read ahead.
  void record(const Call &call, Fn fn, int64_t ret, int64_t dropped = 0) {
    Event e;
    e.fn = fn;
    e.count = static_cast<uint64_t>(dropped);
    e.ret = result_of(ret);
    record_path(call, e, known_ ? &file_ : nullptr);
  }

 private:
  NamedFile file_;
  bool known_;
};

// A region, an instant or a counter (session/region.h).
struct RegionDefinition;
struct RegionRecord {
  Fn fn;
  const RegionDefinition *definition;
  const Context *context;
  uint64_t id;
  uint64_t outer_id;
  int64_t epoch;  // of a counter the bits of its value
  int64_t step;
  const char *keys;  // a tag string, or null
};
// t1 0: the region is open. Returns its slot, which the caller may amend as long as the thread's segment and epoch are
// the same; null: there was no room.
Slot *record_region(Thread *t, const RegionRecord &record, uint64_t t0, uint64_t t1);
// Seals the thread's records when `now` is past their time.
void pass_on_when_due(Thread *t, uint64_t now);

// An event of the thread from t0 to t1, whose slot the caller may amend as long as the thread's segment and epoch are
// the same. Null: there was no room, or it is sealed already.
Slot *record_amendable(Thread *t, const Event &event, uint64_t t0, uint64_t t1, OpenFile *file);

void record_process_start(Thread *t);
// The last event of a process; hooks/process_exit.cc has the steps before and after it.
void record_process_exit(int code);
// What is known of a child that was waited for.
struct EndedChild {
  const uint64_t *account;  // bytes read and written; null: unknown
  StartedChild started;
  ProcessTime time;
};
void record_wait(const Call &call, Fn fn, int pid, int status, const EndedChild &child);

// A record that may have to be amended: execve is recorded before the call, and returns only when it failed.
struct PendingRecord {
  Thread *thread = nullptr;
  Slot *slot = nullptr;
};
PendingRecord record_pending(const Call &call, const Event &event, const NamedFile &file);
void amend_pending(const PendingRecord &pending, int64_t ret);
void amend_pending(const PendingRecord &pending, Obstacle obstacle);

}  // namespace tailrace
