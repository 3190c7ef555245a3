// See hooks/stream.h.
#include "hooks/stream.h"

#include "base/sys.h"
#include "session/ledger.h"

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

StreamCall::StreamCall(FILE *stream, Locking locking) : stream_(stream) {
  if (!call_ || !stream) return;
  int fd = descriptor_of(stream);
  if (fd < 0 || !lock(locking)) return;
  file_ = file_of(fd);
  if (!file_) return;
  if (file_->stream.load(std::memory_order_relaxed) != stream) {
    file_->stream.store(stream, std::memory_order_relaxed);
    resume();
    return;
  }
  int64_t unread = unread_bytes(stream), unwritten = unwritten_bytes(stream);
  if (unread < file_->stream_unread) inlined_read_ = file_->stream_unread - unread;
  // Fewer than before: libc itself flushed in between, and all bytes in the buffer came after.
  inlined_written_ = unwritten < file_->stream_unwritten ? unwritten : unwritten - file_->stream_unwritten;
}

int64_t StreamCall::take_position(int64_t bytes) {
  // The kernel's position is that of the buffer, not of the call. The table's is valid while only this process moves it.
  if (!is_seekable(file_) || !position_is_own(file_)) return -1;
  return file_->position.fetch_add(bytes, std::memory_order_relaxed);
}

void StreamCall::emit_inlined(Fn fn, int64_t bytes) {
  if (fn == Fn::f_fgetc) bytes = without_pushed_back(bytes);
  if (bytes <= 0) return;
  Event e{fn,   file_->hash.load(std::memory_order_relaxed), 0, take_position(bytes), static_cast<uint64_t>(bytes),
          bytes};
  record_file(call_, e, file_);
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
  // A seek within the buffer only moves the pointer; otherwise libc drops the buffer and may fill another. The buffer's
  // end is not within it: for a seek there libc reads the same part again.
  bool filled = stream_->_IO_read_end > stream_->_IO_read_base;
  bool at_end = moved && stream_->_IO_read_ptr == stream_->_IO_read_end;
  bool refilled = filled && (stream_->_offset != end_of_buffer_ || at_end);
  int64_t now = refilled ? stream_->_IO_read_base - stream_->_IO_read_ptr : unread_bytes(stream_);
  count_ahead(file_->stream_unread - now);
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
  count_ahead(unread_at_close());
  file_->stream.store(nullptr, std::memory_order_relaxed);
}

void StreamCall::resume() {
  if (!*this) return;
  file_->stream_unread = unread_bytes(stream_);
  file_->stream_unwritten = unwritten_bytes(stream_);
}

void StreamCall::flushed() {
  if (!*this) return;
  count_ahead(file_->stream_unread - unread_bytes(stream_));
  resume();
}

void StreamCall::pushed_back() {
  if (!*this) return;
  ++file_->stream_pushed;
  take_position(-1);
  resume();
}

int64_t StreamCall::without_pushed_back(int64_t bytes) {
  int64_t again = bytes < file_->stream_pushed ? bytes : file_->stream_pushed;
  if (again <= 0) return bytes;
  file_->stream_pushed -= again;
  take_position(again);
  return bytes - again;
}

// A stream that changes from reading to writing drops what it has read ahead.
void StreamCall::drop_unread(int64_t unread) {
  if (unread > 0) count_ahead(unread - unread_bytes(stream_));
}

void StreamCall::transferred(Fn fn, uint64_t count, int64_t size, uint64_t item_bytes) {
  if (!*this) return;
  // The hook has called settle() before the real call, so that only the bytes of this call are left.
  if (function(fn).direction == Direction::W) drop_unread(file_->stream_unread);
  if (function(fn).direction == Direction::R) size = without_pushed_back(size);
  int64_t at = take_position(size > 0 ? size : 0);
  Event e{fn, file_->hash.load(std::memory_order_relaxed), item_bytes, at, count, size};
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

void settle_all_streams() {
  each_stream([](OpenFile *f) {
    StreamCall call(static_cast<FILE *>(f->stream.load(std::memory_order_relaxed)), Locking::kTry);
    call.settle();
  });
}

void forget_all_streams() {
  each_stream(
      [](OpenFile *f) { forget_file(static_cast<FILE *>(f->stream.load(std::memory_order_relaxed))->_fileno); });
}

}  // namespace tailrace
