// See hooks/stream.h.
#include "hooks/stream.h"

#include "base/sys.h"
#include "linker/real.h"
#include "session/ledger.h"
#include "session/write_place.h"

// glibc 2.32 and later: false once the process has had a second thread.
extern "C" char __libc_single_threaded __attribute__((weak));

// ThreadSanitizer does not see libc's locks of streams.
#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void *);
extern "C" void __tsan_release(void *);
#else
static void __tsan_acquire(void *) {}
static void __tsan_release(void *) {}
#endif

namespace tailrace {

bool StreamCall::lock(Locking locking) {
  bool alone = &__libc_single_threaded && __libc_single_threaded;
  if (!alone && locking != Locking::kCallerHas) {
    if (locking == Locking::kTry && ftrylockfile(stream_) != 0) return false;
    if (locking == Locking::kLock) flockfile(stream_);
    locked_ = true;
    held_before_ = t_held_stream;
    t_held_stream = stream_;
  }
  __tsan_acquire(stream_);
  return true;
}

void StreamCall::unlock() {
  if (file_ || locked_) __tsan_release(stream_);
  if (!locked_) return;
  locked_ = false;
  t_held_stream = held_before_;
  funlockfile(stream_);
}

bool StreamCall::release() {
  bool had_file = file_ != nullptr;
  unlock();
  file_ = nullptr;
  return had_file;
}

StreamCall::StreamCall(FILE *stream, Locking locking, bool settled) : stream_(stream) {
  if (!call_ || !stream) return;
  int fd = descriptor_of(stream);
  if (fd < 0 || !lock(locking)) return;
  file_ = file_of(fd);
  if (!file_) return;
  if (file_->stream.load(std::memory_order_relaxed) != stream) {
    file_->stream.store(stream, std::memory_order_relaxed);
    file_->stream_read_to = -1;
    file_->unplaced = {nullptr, nullptr, 0, 0, -1, -1};
    resume();
    return;
  }
  int64_t unread = unread_bytes(stream), unwritten = unwritten_bytes(stream);
  if (unread < file_->stream_unread) inlined_read_ = file_->stream_unread - unread;
  // Fewer than before: libc itself flushed in between, and all bytes in the buffer came after.
  inlined_written_ = unwritten < file_->stream_unwritten ? unwritten : unwritten - file_->stream_unwritten;
  if (unwritten < file_->stream_unwritten) settle_unseen_flush(settled);
}

// ---- positions ----

void StreamCall::move_position(int64_t bytes) {
  if (is_seekable(file_) && position_is_own(file_)) file_->position.fetch_add(bytes, std::memory_order_relaxed);
}

bool StreamCall::knows_kernel_position() const {
  if (!*this) return false;
  const bool is_wide = stream_->_mode > 0;
  return is_seekable(file_) && !position_is_own(file_) && !is_wide;
}

int64_t StreamCall::begin_of_read(int64_t bytes) {
  int64_t &read_to = file_->stream_read_to;
  const int64_t unread = unread_bytes(stream_);
  const bool filled = bytes + unread != file_->stream_unread;
  if (filled || read_to < 0) read_to = sys::lseek(stream_->_fileno, 0, SEEK_CUR);
  const int64_t begin = read_to - unread - bytes;
  return read_to < 0 || begin < 0 ? -1 : begin;
}

namespace {

constexpr int64_t kUsualBuffer = 4096;

int64_t buffer_bytes(const FILE *s) { return s->_IO_buf_base ? s->_IO_buf_end - s->_IO_buf_base : kUsualBuffer; }
// libc writes them after each call, or after each line.
bool is_unbuffered(const FILE *s) { return s->_flags & 0x2; }
bool is_line_buffered(const FILE *s) { return s->_flags & 0x200; }

}  // namespace

// Whether libc writes so many bytes by one call.
bool StreamCall::writes_at_once(int64_t bytes) const {
  return is_unbuffered(stream_) || bytes <= buffer_bytes(stream_);
}

void StreamCall::expect_flush(size_t bytes) {
  if (!knows_kernel_position()) return;
  const int64_t room = buffer_bytes(stream_) - unwritten_bytes(stream_);
  const bool fills = room <= 0 || bytes >= static_cast<size_t>(room);
  if (!fills && !is_unbuffered(stream_) && !is_line_buffered(stream_)) return;
  if (is_contended(file_) || (fills && !is_unbuffered(stream_))) {
    end_before_ = end_of_writing(file_, stream_->_fileno, file_->append);
  }
}

// ---- the chain of records whose bytes are in the buffer ----

namespace {

constexpr int64_t kFirstOfChain = -2;

Slot *last_unplaced(const OpenFile *f) {
  const Unplaced &u = f->unplaced;
  const Thread *t = t_thread;
  const bool is_there = u.last && t && t->segment == u.segment && t->epoch == u.epoch && g_session.pid == u.pid;
  return is_there ? u.last : nullptr;
}

Slot *one_before(Slot *slot) { return slot->offset >= kFirstOfChain ? nullptr : slot - (kFirstOfChain - slot->offset); }

void add_to_chain(OpenFile *f, Slot *slot) {
  const Thread *t = t_thread;
  if (!slot || !t) {
    f->unplaced.last = nullptr;
    return;
  }
  const Slot *last = last_unplaced(f);
  slot->offset = kFirstOfChain - (last ? slot - last : 0);
  f->unplaced.last = slot;
  f->unplaced.segment = t->segment;
  f->unplaced.epoch = t->epoch;
  f->unplaced.pid = g_session.pid;
}

}  // namespace

// The flush wrote `flushed` bytes from `begin` on (-1: not known where), and the chain's last record ends at `end`.
void StreamCall::place(int64_t begin, int64_t flushed, int64_t end) {
  const bool goes_on = begin >= 0 && begin == file_->unplaced.flushed_to;
  file_->unplaced.flushed_to = begin < 0 ? -1 : begin + flushed;
  Slot *slot = begin < 0 ? nullptr : last_unplaced(file_), *waiting = nullptr;
  while (slot) {
    Slot *before = one_before(slot);
    const int64_t from = end - slot->ret;
    // One that an earlier flush has begun may be in two pieces.
    const bool is_whole = from >= begin || goes_on;
    if (end > begin + flushed && is_whole) {
      waiting = slot;
    } else {
      slot->offset = is_whole ? from : -1;
    }
    end = from;
    slot = before;
  }
  if (waiting) {
    waiting->offset = kFirstOfChain;
  } else {
    file_->unplaced.last = nullptr;
  }
}

// libc has written `flushed` bytes of what is in the chain.
void StreamCall::note_flush(int64_t flushed, bool at_once) {
  if (flushed <= 0 || !knows_kernel_position()) return;
  const int64_t begin = begin_of_written(file_, stream_->_fileno, flushed, end_before_, at_once);
  place(begin, flushed, begin + flushed + unwritten_bytes(stream_));
  file_->stream_read_to = -1;
}

// A flush that no hook saw, in another call of libc. It may have written more than is known of.
void StreamCall::settle_unseen_flush(bool settled) {
  const int64_t flushed = file_->stream_unwritten;
  if (settled) end_before_ = file_->unplaced.end_before;
  if (unwritten_bytes(stream_) == 0) {
    note_flush(flushed, settled && writes_at_once(flushed));
  } else {
    file_->unplaced.last = nullptr;
  }
  file_->stream_unwritten = 0;
}

bool StreamCall::has_unplaced() const {
  return knows_kernel_position() && unwritten_bytes(stream_) > 0 && last_unplaced(file_);
}

// ---- records ----

void StreamCall::record(Event event, int64_t bytes) {
  if (!is_seekable(file_)) {
    record_file(call_, event, file_);
  } else if (position_is_own(file_)) {
    event.offset = file_->position.fetch_add(bytes, std::memory_order_relaxed);
    record_file(call_, event, file_);
  } else if (!knows_kernel_position()) {
    record_file(call_, event, file_);
  } else if (function(event.fn).direction == Direction::R) {
    event.offset = begin_of_read(bytes);
    record_file(call_, event, file_);
  } else {
    record_buffered(event, bytes);
  }
}

// `bytes` were put into the buffer, or written behind it.
void StreamCall::record_buffered(Event event, int64_t bytes) {
  const int64_t left = unwritten_bytes(stream_), flushed = file_->stream_unwritten + bytes - left;
  file_->stream_read_to = -1;
  if (event.ret < 0 || ferror_unlocked(stream_)) {
    file_->unplaced.last = nullptr;
    record_file(call_, event, file_);
    return;
  }
  int64_t begin = 0;
  if (flushed > 0) {
    begin = begin_of_written(file_, stream_->_fileno, flushed, end_before_, writes_at_once(flushed));
    const int64_t from = begin + flushed + left - bytes;
    place(begin, flushed, from);
    if (left <= 0 && begin >= 0) event.offset = from;
  }
  Slot *slot = record_file(call_, event, file_);
  if (bytes > 0 && left > 0 && begin >= 0) add_to_chain(file_, slot);
}

void StreamCall::emit_inlined(Fn fn, int64_t bytes) {
  const bool again = fn == Fn::f_fgetc && file_->stream_pushed > 0;
  if (fn == Fn::f_fgetc) bytes = without_pushed_back(bytes);
  if (bytes <= 0) return;
  Event e{fn, file_->hash.load(std::memory_order_relaxed), 0, -1, static_cast<uint64_t>(bytes), bytes};
  if (again && !position_is_own(file_)) {
    record_file(call_, e, file_);
  } else {
    record(e, bytes);
  }
}

void StreamCall::settle() {
  if (!*this) return;
  emit_inlined(Fn::f_fgetc, inlined_read_);
  emit_inlined(Fn::f_fputc, inlined_written_);
  inlined_read_ = inlined_written_ = 0;
  resume();
  // The buffer of a stream that is being written has nothing to read.
  end_of_buffer_ = stream_->_IO_read_end > stream_->_IO_read_base ? stream_->_offset : -1;
}

void StreamCall::discard_pushed_back(bool moved) {
  if (!*this) return;
  file_->stream_pushed = 0;
  file_->stream_read_to = -1;
  // A seek within the buffer only moves the pointer; otherwise libc drops the buffer and may fill another. The buffer's
  // end is not within it: for a seek there libc reads the same part again.
  bool filled = stream_->_IO_read_end > stream_->_IO_read_base;
  bool at_end = moved && stream_->_IO_read_ptr == stream_->_IO_read_end;
  bool refilled = filled && (stream_->_offset != end_of_buffer_ || at_end);
  int64_t now = refilled ? stream_->_IO_read_base - stream_->_IO_read_ptr : unread_bytes(stream_);
  drop(file_->stream_unread - now);
}

// The bytes of wide characters are only known from the positions.
int64_t StreamCall::unread_at_close() const {
  bool is_wide = stream_->_mode > 0 && is_seekable(file_);
  if (!is_wide) return unread_bytes(stream_);
  int saved = errno;
  int64_t at = ftello64(stream_), unread = sys::lseek(stream_->_fileno, 0, SEEK_CUR) - at;
  errno = saved;
  return at >= 0 && unread > 0 ? unread : 0;
}

void StreamCall::settle_before_close() {
  settle();
  if (!*this) return;
  drop(unread_at_close());
  file_->stream.store(nullptr, std::memory_order_relaxed);
}

void StreamCall::resume() {
  if (!*this) return;
  file_->stream_unread = unread_bytes(stream_);
  file_->stream_unwritten = unwritten_bytes(stream_);
}

void StreamCall::flushed(bool successful) {
  if (!*this) return;
  drop(file_->stream_unread - unread_bytes(stream_));
  if (!successful) file_->unplaced.last = nullptr;
  rebuffered();
}

void StreamCall::rebuffered() {
  if (!*this) return;
  const int64_t flushed = file_->stream_unwritten - unwritten_bytes(stream_);
  note_flush(flushed, writes_at_once(flushed));
  file_->stream_read_to = -1;
  resume();
}

void StreamCall::purged() {
  if (!*this) return;
  file_->unplaced.last = nullptr;
  file_->stream_read_to = -1;
  resume();
}

void StreamCall::pushed_back() {
  if (!*this) return;
  ++file_->stream_pushed;
  move_position(-1);
  resume();
}

int64_t StreamCall::without_pushed_back(int64_t bytes) {
  int64_t again = bytes < file_->stream_pushed ? bytes : file_->stream_pushed;
  if (again <= 0) return bytes;
  file_->stream_pushed -= again;
  move_position(again);
  return bytes - again;
}

void StreamCall::drop(int64_t bytes) {
  dropped_ += bytes;
  count_ahead(bytes);
}

// A stream that changes from reading to writing drops what it has read ahead.
void StreamCall::drop_unread(int64_t unread) {
  if (unread > 0) drop(unread - unread_bytes(stream_));
}

void StreamCall::transferred(Fn fn, uint64_t count, int64_t size, uint64_t item_bytes) {
  if (!*this) return;
  // The hook has called settle() before the real call, so that only the bytes of this call are left.
  if (function(fn).direction == Direction::W) drop_unread(file_->stream_unread);
  const bool again = file_->stream_pushed > 0;
  if (function(fn).direction == Direction::R) size = without_pushed_back(size);
  Event e{fn, file_->hash.load(std::memory_order_relaxed), item_bytes, -1, count, size};
  // What was pushed back is in a buffer of its own.
  if (again && !position_is_own(file_)) {
    record_file(call_, e, file_);
  } else {
    record(e, size > 0 ? size : 0);
  }
  resume();
}

void StreamCall::transferred_elsewhere(Fn fn, int64_t size) {
  if (!*this) return;
  if (position_is_own(file_)) return transferred(fn, static_cast<uint64_t>(size), size);
  file_->unplaced.last = nullptr;
  Event e{fn, file_->hash.load(std::memory_order_relaxed), 0, -1, static_cast<uint64_t>(size), size};
  record_file(call_, e, file_);
  resume();
}

void StreamCall::transferred_char(Fn fn, bool moved) {
  if (!*this) return;
  if (fn != Fn::f_fgetc) drop_unread(file_->stream_unread - inlined_read_);
  int64_t size = (fn == Fn::f_fgetc ? inlined_read_ : inlined_written_) + (moved ? 1 : 0);
  emit_inlined(fn, size);
  resume();
}

EarlyFlush::EarlyFlush(StreamCall &s, FILE *stream) {
  if (!s.has_unplaced()) return;
  s.expect_flush(SIZE_MAX);
  const int status = REAL(fflush)(stream);
  error_ = status == 0 ? 0 : errno;
  s.flushed(status == 0);
}

void settle_all_streams() {
  each_stream([](OpenFile *f) {
    StreamCall call(static_cast<FILE *>(f->stream.load(std::memory_order_relaxed)), Locking::kTry);
    call.settle();
  });
}

void expect_all_flushed() {
  settle_all_streams();
  each_stream([](OpenFile *f) {
    if (!f->unplaced.last) return;
    StreamCall call(static_cast<FILE *>(f->stream.load(std::memory_order_relaxed)), Locking::kTry);
    call.expect_flush(SIZE_MAX);
    f->unplaced.end_before = call.end_before();
  });
}

void note_all_flushed() {
  each_stream([](OpenFile *f) {
    if (!f->unplaced.last) return;
    StreamCall(static_cast<FILE *>(f->stream.load(std::memory_order_relaxed)), Locking::kTry, true);
  });
}

// Not where two streams have one file: libc flushes the one that was opened last first.
void flush_unplaced_streams() {
  static __thread const OpenFile *t_flushed;
  static __thread bool t_is_shared;
  each_stream([](OpenFile *f) {
    if (!f->unplaced.last) return;
    t_flushed = f;
    t_is_shared = false;
    each_stream([](OpenFile *other) {
      const bool is_same = other != t_flushed && other->identity.ino() == t_flushed->identity.ino();
      t_is_shared = t_is_shared || (is_same && unwritten_bytes(static_cast<FILE *>(other->stream.load())) > 0);
    });
    if (t_is_shared) return;
    auto *stream = static_cast<FILE *>(f->stream.load(std::memory_order_relaxed));
    StreamCall call(stream, Locking::kTry);
    EarlyFlush early(call, stream);
  });
}

void forget_all_streams() {
  each_stream(
      [](OpenFile *f) { forget_file(static_cast<FILE *>(f->stream.load(std::memory_order_relaxed))->_fileno); });
}

}  // namespace tailrace
