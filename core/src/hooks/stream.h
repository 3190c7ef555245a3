// Streams: which bytes a stdio call consumed or produced, and what passed by the hooks.
//
// glibc's getc and putc work in the stream's buffer, inlined or as calls that do nothing but move a pointer; to record
// each would cost twenty times the call. So the buffer's pointers are read at every call that does reach us, and what
// moved between two of them is one event "fgetc" or "fputc" with `calls` = `size` = the bytes moved. The buffer can't
// be refilled or flushed without such a call (a function of ours, __uflow or __overflow), so no byte is missed, and
// none is counted twice.
#pragma once

#include <stdio.h>

#include "hooks/hook_records.h"
#include "session/stream_buffer.h"

namespace tailrace {

// -1 for a stream over memory or over functions: memory's has a 0 there, or anything (fileno(3) looks first, too).
inline int descriptor_of(const FILE *s) {
  constexpr int kIsOverFile = 0x2000;  // _IO_IS_FILEBUF of libio.h
  return (s->_flags & kIsOverFile) ? s->_fileno : -1;
}

// kTry: do without the stream when another thread has it (that thread may be waiting for input for ever).
enum class Locking { kLock, kCallerHas, kTry };

// The *_unlocked functions, and what glibc's macros call with the lock held or waived.
constexpr Locking locking_of(string_view symbol) {
  for (string_view waived : {"__uflow", "__overflow", "__underflow", "__wuflow", "__woverflow"}) {
    if (symbol == waived) return Locking::kCallerHas;
  }
  bool waived = symbol.find("unlocked") != string_view::npos;
  return waived ? Locking::kCallerHas : Locking::kLock;
}

// One call on a stream. Made before the real call. In a process with threads it holds the stream's own (recursive) lock
// until it goes: what another thread puts into the buffer in between would look like ours.
class StreamCall {
 public:
  explicit StreamCall(FILE *stream, Locking locking = Locking::kLock);
  ~StreamCall() { unlock(); }
  StreamCall(const StreamCall &) = delete;
  StreamCall &operator=(const StreamCall &) = delete;
  explicit operator bool() const { return file_ != nullptr; }

  // After the real call: `size` bytes consumed or produced of `count` asked for; negative is -errno.
  void transferred(Fn fn, uint64_t count, int64_t size, uint64_t item_bytes = 0);
  // After a single-character call that had to refill or flush; what passed by before is in the same event.
  void transferred_char(Fn fn, bool moved);
  // Before the real call: what passed by is recorded now, as it came before.
  void settle();
  // The same before the stream is closed: the file, if a dup keeps it open, forgets its stream.
  void settle_before_close();
  // After a call that changed the buffers without moving bytes.
  void resume();
  // After a flush: of a stream that is read libc gives back to the file what it had read ahead.
  void flushed();
  // One character was put back: to consume it again is no new byte.
  void pushed_back();
  // A seek, that succeeded if it `moved`, forgets what was put back (ungetc(3)).
  void drop_pushed_back(bool moved);

  // Before a call that frees the stream. True when the stream had a descriptor.
  bool let_go();

  const Call &call() const { return call_; }
  OpenFile *file() const { return file_; }

 private:
  void emit_passed(Fn fn, int64_t bytes);
  int64_t take_position(int64_t bytes);
  int64_t without_pushed_back(int64_t bytes);
  void drop_unread(int64_t unread);
  int64_t unread_at_close() const;
  bool lock(Locking locking);
  void unlock();

  Call call_;
  FILE *stream_;
  OpenFile *file_ = nullptr;
  bool locked_ = false;
  void *held_before_ = nullptr;
  // Between the last call that reached us and this one.
  int64_t passed_reading_ = 0;
  int64_t passed_writing_ = 0;
  int64_t end_of_buffer_ = 0;  // where in the file what could be read in the buffer ended before the call; -1: nothing
};

// A call that doesn't tell what it consumes. Where the file has positions, they do; else the buffer does, filled anew
// once at most (a call that takes more than a buffer of a pipe is counted short).
template <class Real>
auto consume(Fn fn, FILE *stream, Real &&real_call) -> decltype(real_call()) {
  StreamCall s(stream);
  s.settle();
  if (!s) return real_call();
  bool seekable = is_seekable(s.file());
  int64_t before = seekable ? ftello64(stream) : unread_bytes(stream);
  const char *read_end = stream->_IO_read_end;
  auto ret = real_call();
  int saved = errno;
  int64_t bytes;
  if (seekable) {
    bytes = ftello64(stream) - before;
  } else {
    int64_t refilled = stream->_IO_read_end == read_end ? 0 : stream->_IO_read_end - stream->_IO_read_base;
    bytes = before + refilled - unread_bytes(stream);
  }
  s.transferred(fn, kNoCount, bytes > 0 ? bytes : 0);
  errno = saved;
  return ret;
}

// What inlined calls left in the buffers of the streams that are open: for the end of the process.
void settle_all_streams();
// Before all streams and their descriptors are closed.
void forget_all_streams();

}  // namespace tailrace
