// Streams: the bytes that a stdio call consumed or produced, and those that inlined calls moved in between.
//
// glibc's getc and putc work in the stream's buffer, inlined or as calls that only move a pointer; recording each would
// cost twenty times the call. So every hook reads the buffer's pointers, and what moved since the previous hook is one
// event "fgetc" or "fputc" with `calls` = `size` = the bytes moved. The buffer can't be refilled or flushed without a hook
// (a stdio function, __uflow or __overflow), so no byte is missed, and none is counted twice.
//
// Where the bytes of a call lie in the file:
//
//   the position is this process's own    where the table of files has it, at once
//   read otherwise                        the buffer's end is at the kernel's position when it is filled: one lseek each time
//   written otherwise (appending, or      known when the buffer is flushed: the position then is the end of what was
//   inherited from another process)       written. Until then the records wait in a chain (Unplaced, session/files.h), in
//                                         which a record's offset is the way to the one before it, below 0 as an unknown one
//
// A record that is sealed before its bytes are flushed has no offset; nor have bytes that another process may have moved
// (session/write_place.h), and those of wide characters, whose buffer libc alone knows.
#pragma once

#include <stdio.h>

#include "hooks/hook_records.h"
#include "session/stream_buffer.h"

namespace tailrace {

// -1 for a stream over memory or functions, whose _fileno has no meaning (fileno(3) checks the flag, too).
inline int descriptor_of(const FILE *s) {
  constexpr int kIsOverFile = 0x2000;  // _IO_IS_FILEBUF of libio.h
  return (s->_flags & kIsOverFile) ? s->_fileno : -1;
}

// What a formatted text is taken to be at most, whose size is not known before.
constexpr size_t kUsualText = 512;

// kTry: skip the stream when another thread holds its lock, since that thread may wait for input for ever.
enum class Locking { kLock, kCallerHas, kTry };

// kCallerHas for the *_unlocked functions and for those that glibc's macros call with the lock held or waived.
constexpr Locking locking_of(string_view symbol) {
  for (string_view waived : {"__uflow", "__overflow", "__underflow", "__wuflow", "__woverflow"}) {
    if (symbol == waived) return Locking::kCallerHas;
  }
  bool waived = symbol.find("unlocked") != string_view::npos;
  return waived ? Locking::kCallerHas : Locking::kLock;
}

// One call on a stream, to be made before the real call. In a process with threads it holds the stream's own (recursive)
// lock for its lifetime: otherwise what another thread puts into the buffer would be attributed to this call.
class StreamCall {
 public:
  // `settled`: nothing was put into the buffer since it was settled, so that a flush since then wrote what is known of.
  explicit StreamCall(FILE *stream, Locking locking = Locking::kLock, bool settled = false);
  ~StreamCall() { unlock(); }
  StreamCall(const StreamCall &) = delete;
  StreamCall &operator=(const StreamCall &) = delete;
  // False also where recording has ended during the real call (session/give_way.h).
  explicit operator bool() const { return file_ && is_recording(); }

  // Whether the kernel's position tells where bytes of the buffer lie, and nothing else does.
  bool knows_kernel_position() const;
  // Before a real call that may write what is in the buffer, and `bytes` more.
  void expect_flush(size_t bytes);
  // After the real call: `size` bytes were consumed or produced of `count` requested; negative is -errno.
  void transferred(Fn fn, uint64_t count, int64_t size, uint64_t item_bytes = 0);
  // The same before or long after libc has written them.
  void transferred_elsewhere(Fn fn, int64_t size);
  // After a single-character call that had to refill or flush; bytes of inlined calls before it are in the same event.
  void transferred_char(Fn fn, bool moved);
  // Before the real call: records the bytes of inlined calls, which came before.
  void settle();
  // The same before the stream is closed. The file, which a duplicate may keep open, forgets its stream.
  void settle_before_close();
  // After a call that changed the buffers without moving bytes.
  void resume();
  // After a flush, which was a success or not: libc returns what it has read ahead to the file by a seek.
  void flushed(bool successful);
  // After a call that flushed what was written, if at all.
  void rebuffered();
  // After a call that dropped what was written.
  void purged();
  // Whether a flush now would tell offsets of records.
  bool has_unplaced() const;
  // One character was pushed back: consuming it again is no new byte.
  void pushed_back();
  // After a seek, which discards what was pushed back (ungetc(3)). `moved`: it succeeded.
  void discard_pushed_back(bool moved);

  // Before a call that frees the stream. True when the stream had a descriptor.
  bool release();

  const Call &call() const { return call_; }
  int64_t end_before() const { return end_before_; }
  OpenFile *file() const { return file_; }
  // What the call has dropped of the bytes that libc had read ahead; below 0: it reads some of them again.
  int64_t dropped() const { return dropped_; }

 private:
  void emit_inlined(Fn fn, int64_t bytes);
  void record(Event event, int64_t bytes);
  void record_buffered(Event event, int64_t bytes);
  int64_t begin_of_read(int64_t bytes);
  bool writes_at_once(int64_t bytes) const;
  void note_flush(int64_t flushed, bool at_once);
  void place(int64_t begin, int64_t flushed, int64_t end);
  void settle_unseen_flush(bool settled);
  void move_position(int64_t bytes);
  int64_t without_pushed_back(int64_t bytes);
  void drop(int64_t bytes);
  void drop_unread(int64_t unread);
  int64_t unread_at_close() const;
  bool lock(Locking locking);
  void unlock();

  Call call_;
  FILE *stream_;
  OpenFile *file_ = nullptr;
  bool locked_ = false;
  void *held_before_ = nullptr;
  // Bytes that inlined calls moved since the previous hook.
  int64_t inlined_read_ = 0;
  int64_t inlined_written_ = 0;
  int64_t dropped_ = 0;
  int64_t end_of_buffer_ = 0;  // file offset at which the read buffer ended before the call; -1: no read buffer
  int64_t end_before_ = -1;    // end_of_writing() before the call, where that was asked
};

// The flush that a call would make, made before it: behind the call the position is no more that of the flush, or gone. If it
// fails, the call has failed.
class EarlyFlush {
 public:
  EarlyFlush(StreamCall &s, FILE *stream);
  template <class Result>
  Result result(Result ret) const {
    if (!error_ || ret != 0) return ret;
    errno = error_;
    return EOF;
  }

 private:
  int error_ = 0;
};

// A call that does not return what it consumed. Where the file has positions, their difference is; otherwise the buffer's
// is, with one refill at most (a call that takes more than a buffer of a pipe is counted short).
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

// Records what inlined calls moved in the buffers of all open streams; for the end of the process.
void settle_all_streams();
// Before and after libc flushes all streams.
void expect_all_flushed();
void note_all_flushed();
// At the end of the process, right before libc does it: flushes the streams whose records have no offsets yet.
void flush_unplaced_streams();
// To be called before all streams and their descriptors are closed.
void forget_all_streams();

}  // namespace tailrace
