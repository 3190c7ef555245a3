// Hooks: streams. A stdio event's size is what the call consumed or produced, not what libc then read or wrote; see
// hooks/stream.h.
#include <mntent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/hook_records.h"
#include "hooks/pipelines.h"
#include "hooks/stream.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);
char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
ssize_t __getdelim(char **, size_t *, int, FILE *);
int __fprintf_chk(FILE *, int, const char *, ...);
int __vfprintf_chk(FILE *, int, const char *, va_list);
int __printf_chk(int, const char *, ...);
int __vprintf_chk(int, const char *, va_list);
// The headers declare the C99 scanf to C++ under the old names; here both symbols are needed.
int c99_fscanf(FILE *, const char *, ...) __asm__("__isoc99_fscanf");
int c99_vfscanf(FILE *, const char *, va_list) __asm__("__isoc99_vfscanf");
int c99_scanf(const char *, ...) __asm__("__isoc99_scanf");
int gnu_fscanf(FILE *, const char *, ...) __asm__("fscanf");
int gnu_vfscanf(FILE *, const char *, va_list) __asm__("vfscanf");
int gnu_scanf(const char *, ...) __asm__("scanf");
int _IO_getc(FILE *);
char *libc_gets(char *) __asm__("gets");
char *__gets_chk(char *, size_t);
int c99_vscanf(const char *, va_list) __asm__("__isoc99_vscanf");
int gnu_vscanf(const char *, va_list) __asm__("vscanf");
int _IO_flush_all(void);
void _flushlbf(void);
int __underflow(FILE *);
int _IO_putc(int, FILE *);
}

namespace {

// open(2)'s flags for a mode string (fopen(3)).
int flags_of(const char *mode) {
  bool update = strchr(mode, '+') != nullptr;
  int flags = update ? O_RDWR : (*mode == 'r' ? O_RDONLY : O_WRONLY);
  if (*mode == 'w') flags |= O_CREAT | O_TRUNC;
  if (*mode == 'a') flags |= O_CREAT | O_APPEND;
  if (strchr(mode, 'x')) flags |= O_EXCL;
  if (strchr(mode, 'e')) flags |= O_CLOEXEC;
  return flags;
}

void record_stream_opened(const Call &call, Fn fn, FILE *stream, const char *path, int flags) {
  if (!call) return;
  int saved = errno;
  NamedFile file;
  Event e;
  e.fn = fn;
  e.count = static_cast<uint64_t>(flags);
  if (stream) {
    e.ret = stream->_fileno;
    record_path(call, e, file_opened(stream->_fileno, {AT_FDCWD, path, flags}, file) ? &file : nullptr);
  } else if (reads_as_string_after(path, saved)) {
    name_file(AT_FDCWD, path, Lookup::kNot, file);
    e.ret = -saved;
    record_path(call, e, &file);
  }
  errno = saved;
}

void mark_translation(FILE *stream, const char *mode) {
  if (!strstr(mode, ",ccs=")) return;
  StreamCall s(stream);
  if (s) s.file()->translates = true;
}

// The bytes that fgets consumed: a line may hold zeros, and then strlen stops short of its end.
int64_t line_bytes(const char *line, int size, FILE *stream) {
  size_t n = strlen(line), most = static_cast<size_t>(size) - 1;
  if (n == most || (n > 0 && line[n - 1] == '\n') || feof_unlocked(stream)) return static_cast<int64_t>(n);
  auto *end = static_cast<const char *>(memchr(line + n, '\n', most - n));
  return end ? end - line + 1 : static_cast<int64_t>(most);
}

int64_t items_or_error(size_t bytes, size_t wanted, FILE *stream) {
  return bytes == 0 && wanted > 0 && ferror_unlocked(stream) ? -static_cast<int64_t>(errno ? errno : EIO)
                                                             : static_cast<int64_t>(bytes);
}

bool overflows(size_t a, size_t b, size_t &product) { return __builtin_mul_overflow(a, b, &product); }

}  // namespace

#define FOPEN_HOOK(symbol)                                                               \
  TAILRACE_HOOK FILE *symbol(const char *path, const char *mode) {                       \
    Call call;                                                                           \
    FILE *stream = REAL(symbol)(path, mode);                                             \
    record_stream_opened(call, Fn::f_##symbol, stream, path, call ? flags_of(mode) : 0); \
    if (stream && strchr(mode, ',')) mark_translation(stream, mode);                     \
    return stream;                                                                       \
  }
FOPEN_HOOK(fopen)
FOPEN_HOOK(fopen64)

#define TMPFILE_HOOK(symbol)                                                                \
  TAILRACE_HOOK FILE *symbol() {                                                            \
    Call call;                                                                              \
    FILE *stream = REAL(symbol)();                                                          \
    record_stream_opened(call, Fn::f_##symbol, stream, nullptr, O_RDWR | O_CREAT | O_EXCL); \
    return stream;                                                                          \
  }
TMPFILE_HOOK(tmpfile)
TMPFILE_HOOK(tmpfile64)

TAILRACE_HOOK FILE *fdopen(int fd, const char *mode) noexcept {
  Call call;
  FILE *stream = REAL(fdopen)(fd, mode);
  // libc sets the flag by a call that no hook sees.
  if (call && stream && *mode == 'a') set_appending(fd, O_APPEND);
  record_fd(call, Fn::f_fdopen, fd, stream ? fd : -1, call ? static_cast<uint64_t>(flags_of(mode)) : 0);
  return stream;
}

// The stream's descriptor is closed, and the new one usually gets its number.
#define FREOPEN_HOOK(symbol)                                                                  \
  TAILRACE_HOOK FILE *symbol(const char *path, const char *mode, FILE *stream) {              \
    StreamCall s(stream);                                                                     \
    s.settle();                                                                               \
    EarlyFlush early(s, stream);                                                              \
    if (s.call() && descriptor_of(stream) >= 0) forget_file(stream->_fileno);                 \
    FILE *ret = REAL(symbol)(path, mode, stream);                                             \
    record_stream_opened(s.call(), Fn::f_##symbol, ret, path, s.call() ? flags_of(mode) : 0); \
    return ret;                                                                               \
  }
FREOPEN_HOOK(freopen)
FREOPEN_HOOK(freopen64)

// A table of mounts is a stream like any other.
TAILRACE_HOOK FILE *setmntent(const char *path, const char *mode) noexcept {
  Call call;
  FILE *stream = REAL(setmntent)(path, mode);
  record_stream_opened(call, Fn::f_setmntent, stream, path, call && stream ? flags_of(mode) : 0);
  return stream;
}

TAILRACE_HOOK int endmntent(FILE *stream) noexcept {
  StreamCall s(stream);
  s.settle_before_close();
  EarlyFlush early(s, stream);
  Closing closing(s.call(), s ? stream->_fileno : -1);
  bool has_descriptor = s.release();
  int ret = REAL(endmntent)(stream);
  if (has_descriptor) closing.record(s.call(), Fn::f_endmntent, 0, s.dropped());
  return ret;
}

TAILRACE_HOOK int fclose(FILE *stream) {
  int status;
  if (close_pipeline(stream, Fn::f_fclose, status)) return status;
  StreamCall s(stream);
  s.settle_before_close();
  EarlyFlush early(s, stream);
  Closing closing(s.call(), s ? stream->_fileno : -1);
  bool has_descriptor = s.release();
  int ret = early.result(REAL(fclose)(stream));
  if (has_descriptor) closing.record(s.call(), Fn::f_fclose, ret, s.dropped());
  return ret;
}

namespace {

// All streams: libc does that inside.
template <class Real>
auto flush_all(Real &&real_call) -> decltype(real_call()) {
  struct Around {
    bool records = enter() != nullptr;
    Around() {
      if (records) expect_all_flushed();
    }
    ~Around() {
      int saved = errno;
      if (records && enter()) note_all_flushed();
      errno = saved;
    }
  } around;
  return real_call();
}

}  // namespace

#define FFLUSH_HOOK(symbol)                                                                          \
  TAILRACE_HOOK int symbol(FILE *stream) {                                                           \
    if (!stream) {                                                                                   \
      return flush_all([&] { return REAL(symbol)(stream); });                                        \
    }                                                                                                \
    StreamCall s(stream, locking_of(#symbol));                                                       \
    s.settle();                                                                                      \
    if (s.has_unplaced()) s.expect_flush(SIZE_MAX);                                                  \
    int ret = REAL(symbol)(stream);                                                                  \
    if (s) {                                                                                         \
      s.flushed(ret == 0);                                                                           \
      record_fd(s.call(), Fn::f_##symbol, stream->_fileno, ret, static_cast<uint64_t>(s.dropped())); \
    }                                                                                                \
    return ret;                                                                                      \
  }
FFLUSH_HOOK(fflush)
FFLUSH_HOOK(fflush_unlocked)

TAILRACE_HOOK int fcloseall() {
  Call call;
  if (call) {
    settle_all_streams();
    flush_unplaced_streams();
    forget_all_streams();
  }
  int ret = REAL(fcloseall)();
  record_plain(call, Fn::f_fcloseall, ret);
  return ret;
}

namespace {

void record_seek(StreamCall &s, Fn fn, FILE *stream, int ret) {
  if (!s) return;
  s.discard_pushed_back(ret == 0);
  s.resume();
  int saved = errno;
  off64_t now = ret == 0 ? ftello64(stream) : -1;
  if (now >= 0) s.file()->position.store(now, std::memory_order_relaxed);
  errno = saved;
  record_fd(s.call(), fn, stream->_fileno, ret, static_cast<uint64_t>(s.dropped()), now);
}

}  // namespace

#define FSEEK_HOOK(symbol, offset_type)                                    \
  TAILRACE_HOOK int symbol(FILE *stream, offset_type offset, int whence) { \
    StreamCall s(stream);                                                  \
    s.settle();                                                            \
    EarlyFlush early(s, stream);                                           \
    int ret = early.result(REAL(symbol)(stream, offset, whence));          \
    record_seek(s, Fn::f_##symbol, stream, ret);                           \
    return ret;                                                            \
  }
FSEEK_HOOK(fseek, long)
FSEEK_HOOK(fseeko, off_t)
FSEEK_HOOK(fseeko64, off64_t)

#define FSETPOS_HOOK(symbol, position_type)                         \
  TAILRACE_HOOK int symbol(FILE *stream, const position_type *at) { \
    StreamCall s(stream);                                           \
    s.settle();                                                     \
    EarlyFlush early(s, stream);                                    \
    int ret = early.result(REAL(symbol)(stream, at));               \
    record_seek(s, Fn::f_##symbol, stream, ret);                    \
    return ret;                                                     \
  }
FSETPOS_HOOK(fsetpos, fpos_t)
FSETPOS_HOOK(fsetpos64, fpos64_t)

// Calls that change a stream's buffer and move no bytes: what inlined calls moved in the old buffer is recorded before.
#define BUFFER_HOOK(type, symbol, parameters, arguments) \
  TAILRACE_HOOK type symbol parameters {                 \
    StreamCall s(stream, locking_of(#symbol));           \
    s.settle();                                          \
    type ret = REAL(symbol) arguments;                   \
    s.rebuffered();                                      \
    return ret;                                          \
  }
#define BUFFER_VOID_HOOK(symbol, parameters, arguments, done) \
  TAILRACE_HOOK void symbol parameters noexcept {             \
    StreamCall s(stream);                                     \
    s.settle();                                               \
    REAL(symbol) arguments;                                   \
    s.done();                                                 \
  }
BUFFER_HOOK(int, setvbuf, (FILE * stream, char *buf, int mode, size_t n) noexcept, (stream, buf, mode, n))
BUFFER_HOOK(int, __underflow, (FILE * stream), (stream))
BUFFER_VOID_HOOK(setbuf, (FILE * stream, char *buf), (stream, buf), rebuffered)
BUFFER_VOID_HOOK(setbuffer, (FILE * stream, char *buf, size_t n), (stream, buf, n), rebuffered)
BUFFER_VOID_HOOK(setlinebuf, (FILE * stream), (stream), rebuffered)
BUFFER_VOID_HOOK(__fpurge, (FILE * stream), (stream), purged)

TAILRACE_HOOK int _IO_flush_all() {
  return flush_all([&] { return REAL(_IO_flush_all)(); });
}
TAILRACE_HOOK void _flushlbf() {
  flush_all([&] { REAL(_flushlbf)(); });
}

TAILRACE_HOOK void rewind(FILE *stream) {
  StreamCall s(stream);
  s.settle();
  EarlyFlush early(s, stream);
  REAL(rewind)(stream);
  record_seek(s, Fn::f_rewind, stream, 0);
}

// Called with items of one byte, fread and fwrite do the same and also return the bytes of an incomplete item (fread(3)
// counts only whole ones). The hook returns the number of whole items of the caller's size.
#define FREAD_BODY(symbol, real_call, expect)                                         \
  size_t wanted;                                                                      \
  StreamCall s(stream);                                                               \
  if (!s || size == 0 || overflows(size, n, wanted)) return real_call(size, n);       \
  s.settle();                                                                         \
  expect;                                                                             \
  LongCall running(s.call(), Fn::f_##symbol, wanted);                                 \
  size_t bytes = real_call(1, wanted);                                                \
  s.transferred(Fn::f_##symbol, wanted, items_or_error(bytes, wanted, stream), size); \
  return bytes == wanted ? n : bytes / size;

#define FREAD_HOOK(symbol)                                                                \
  TAILRACE_HOOK size_t symbol(void *buf, size_t size, size_t n, FILE *stream) {           \
    auto real_call = [&](size_t a, size_t b) { return REAL(symbol)(buf, a, b, stream); }; \
    FREAD_BODY(symbol, real_call, )                                                       \
  }
FREAD_HOOK(fread)
FREAD_HOOK(fread_unlocked)

#define FREAD_CHK_HOOK(symbol)                                                                  \
  TAILRACE_HOOK size_t symbol(void *buf, size_t room, size_t size, size_t n, FILE *stream) {    \
    auto real_call = [&](size_t a, size_t b) { return REAL(symbol)(buf, room, a, b, stream); }; \
    FREAD_BODY(symbol, real_call, )                                                             \
  }
FREAD_CHK_HOOK(__fread_chk)
FREAD_CHK_HOOK(__fread_unlocked_chk)

#define FWRITE_HOOK(symbol)                                                               \
  TAILRACE_HOOK size_t symbol(const void *buf, size_t size, size_t n, FILE *stream) {     \
    auto real_call = [&](size_t a, size_t b) { return REAL(symbol)(buf, a, b, stream); }; \
    FREAD_BODY(symbol, real_call, s.expect_flush(wanted))                                 \
  }
FWRITE_HOOK(fwrite)
FWRITE_HOOK(fwrite_unlocked)

#define FGETS_HOOK(symbol, parameters, arguments)                                           \
  TAILRACE_HOOK char *symbol parameters {                                                   \
    StreamCall s(stream, locking_of(#symbol));                                              \
    s.settle();                                                                             \
    char *ret = REAL(symbol) arguments;                                                     \
    if (s) {                                                                                \
      int64_t bytes = ret ? line_bytes(buf, size, stream) : 0;                              \
      s.transferred(Fn::f_##symbol, size > 0 ? static_cast<uint64_t>(size) - 1 : 0, bytes); \
    }                                                                                       \
    return ret;                                                                             \
  }
FGETS_HOOK(fgets, (char *buf, int size, FILE *stream), (buf, size, stream))
FGETS_HOOK(fgets_unlocked, (char *buf, int size, FILE *stream), (buf, size, stream))
FGETS_HOOK(__fgets_chk, (char *buf, size_t room, int size, FILE *stream), (buf, room, size, stream))
FGETS_HOOK(__fgets_unlocked_chk, (char *buf, size_t room, int size, FILE *stream), (buf, room, size, stream))

// The newline was consumed but is not in the line.
template <class Real>
static char *get_line(Fn fn, Real &&real_call) {
  StreamCall s(stdin);
  s.settle();
  char *ret = real_call();
  if (s) s.transferred(fn, kNoCount, ret ? static_cast<int64_t>(strlen(ret)) + !feof_unlocked(stdin) : 0);
  return ret;
}

TAILRACE_HOOK char *gets(char *buf) {
  auto *real = reinterpret_cast<decltype(&libc_gets)>(real_address(Fn::f_gets));
  return get_line(Fn::f_gets, [&] { return real(buf); });
}

TAILRACE_HOOK char *__gets_chk(char *buf, size_t room) {
  return get_line(Fn::f___gets_chk, [&] { return REAL(__gets_chk)(buf, room); });
}

#define GETLINE_HOOK(symbol, parameters, arguments)             \
  TAILRACE_HOOK ssize_t symbol parameters {                     \
    StreamCall s(stream);                                       \
    s.settle();                                                 \
    ssize_t ret = REAL(symbol) arguments;                       \
    s.transferred(Fn::f_##symbol, kNoCount, ret < 0 ? 0 : ret); \
    return ret;                                                 \
  }
GETLINE_HOOK(getline, (char **line, size_t *n, FILE *stream), (line, n, stream))
GETLINE_HOOK(getdelim, (char **line, size_t *n, int end, FILE *stream), (line, n, end, stream))
GETLINE_HOOK(__getdelim, (char **line, size_t *n, int end, FILE *stream), (line, n, end, stream))

// `bytes`: what a successful call produces.
#define PUTS_HOOK(symbol, parameters, arguments, stream, bytes)                                           \
  TAILRACE_HOOK int symbol parameters {                                                                   \
    StreamCall s(stream, locking_of(#symbol));                                                            \
    s.settle();                                                                                           \
    if (s.knows_kernel_position()) s.expect_flush(bytes);                                                 \
    int ret = REAL(symbol) arguments;                                                                     \
    if (s) {                                                                                              \
      size_t n = bytes;                                                                                   \
      s.transferred(Fn::f_##symbol, n, ret < 0 ? -static_cast<int64_t>(errno) : static_cast<int64_t>(n)); \
    }                                                                                                     \
    return ret;                                                                                           \
  }
PUTS_HOOK(fputs, (const char *text, FILE *out), (text, out), out, strlen(text))
PUTS_HOOK(fputs_unlocked, (const char *text, FILE *out), (text, out), out, strlen(text))
PUTS_HOOK(puts, (const char *text), (text), stdout, strlen(text) + 1)

namespace {

template <class Print>
int print(Fn fn, FILE *stream, Print &&real_call) {
  StreamCall s(stream);
  s.settle();
  s.expect_flush(kUsualText);
  int ret = real_call();
  s.transferred(fn, ret < 0 ? 0 : static_cast<uint64_t>(ret), ret < 0 ? -static_cast<int64_t>(errno) : ret);
  return ret;
}

}  // namespace

#define PRINT_HOOK(symbol, vsymbol, parameters, stream, ...)                                   \
  TAILRACE_HOOK int symbol parameters {                                                        \
    va_list args;                                                                              \
    va_start(args, format);                                                                    \
    int ret = print(Fn::f_##symbol, stream, [&] { return REAL(vsymbol)(__VA_ARGS__, args); }); \
    va_end(args);                                                                              \
    return ret;                                                                                \
  }
PRINT_HOOK(fprintf, vfprintf, (FILE * out, const char *format, ...), out, out, format)
PRINT_HOOK(printf, vprintf, (const char *format, ...), stdout, format)
PRINT_HOOK(__fprintf_chk, __vfprintf_chk, (FILE * out, int flag, const char *format, ...), out, out, flag, format)
PRINT_HOOK(__printf_chk, __vprintf_chk, (int flag, const char *format, ...), stdout, flag, format)

#define VPRINT_HOOK(symbol, parameters, stream, ...)                                 \
  TAILRACE_HOOK int symbol parameters {                                              \
    return print(Fn::f_##symbol, stream, [&] { return REAL(symbol)(__VA_ARGS__); }); \
  }
VPRINT_HOOK(vfprintf, (FILE * out, const char *format, va_list args), out, out, format, args)
VPRINT_HOOK(vprintf, (const char *format, va_list args), stdout, format, args)
VPRINT_HOOK(__vfprintf_chk, (FILE * out, int flag, const char *format, va_list args), out, out, flag, format, args)
VPRINT_HOOK(__vprintf_chk, (int flag, const char *format, va_list args), stdout, flag, format, args)

#define SCAN_HOOK(name, symbol, vsymbol, parameters, stream)                               \
  TAILRACE_HOOK int name parameters {                                                      \
    va_list args;                                                                          \
    va_start(args, format);                                                                \
    auto *real = reinterpret_cast<decltype(&gnu_vfscanf)>(real_address(Fn::f_##vsymbol));  \
    int ret = consume(Fn::f_##symbol, stream, [&] { return real(stream, format, args); }); \
    va_end(args);                                                                          \
    return ret;                                                                            \
  }
SCAN_HOOK(gnu_fscanf, fscanf, vfscanf, (FILE * in, const char *format, ...), in)
SCAN_HOOK(gnu_scanf, scanf, vfscanf, (const char *format, ...), stdin)
SCAN_HOOK(c99_fscanf, __isoc99_fscanf, __isoc99_vfscanf, (FILE * in, const char *format, ...), in)
SCAN_HOOK(c99_scanf, __isoc99_scanf, __isoc99_vfscanf, (const char *format, ...), stdin)

#define VSCAN_HOOK(name, symbol)                                                  \
  TAILRACE_HOOK int name(FILE *in, const char *format, va_list args) {            \
    auto *real = reinterpret_cast<decltype(&name)>(real_address(Fn::f_##symbol)); \
    return consume(Fn::f_##symbol, in, [&] { return real(in, format, args); });   \
  }
VSCAN_HOOK(gnu_vfscanf, vfscanf)
VSCAN_HOOK(c99_vfscanf, __isoc99_vfscanf)

TAILRACE_HOOK int gnu_vscanf(const char *format, va_list args) {
  auto *real = reinterpret_cast<decltype(&gnu_vscanf)>(real_address(Fn::f_vscanf));
  return consume(Fn::f_vscanf, stdin, [&] { return real(format, args); });
}
TAILRACE_HOOK int c99_vscanf(const char *format, va_list args) {
  auto *real = reinterpret_cast<decltype(&c99_vscanf)>(real_address(Fn::f___isoc99_vscanf));
  return consume(Fn::f___isoc99_vscanf, stdin, [&] { return real(format, args); });
}

#define GETC_HOOK(symbol, parameters, arguments, stream)         \
  TAILRACE_HOOK int symbol parameters {                          \
    if (unread_bytes(stream) > 0) return REAL(symbol) arguments; \
    StreamCall s(stream, locking_of(#symbol));                   \
    int ret = REAL(symbol) arguments;                            \
    s.transferred_char(Fn::f_fgetc, ret != EOF);                 \
    return ret;                                                  \
  }
GETC_HOOK(fgetc, (FILE * in), (in), in)
GETC_HOOK(getc, (FILE * in), (in), in)
GETC_HOOK(_IO_getc, (FILE * in), (in), in)
GETC_HOOK(fgetc_unlocked, (FILE * in), (in), in)
GETC_HOOK(getc_unlocked, (FILE * in), (in), in)
GETC_HOOK(getchar, (), (), stdin)
GETC_HOOK(getchar_unlocked, (), (), stdin)
GETC_HOOK(__uflow, (FILE * in), (in), in)

TAILRACE_HOOK int ungetc(int c, FILE *stream) {
  StreamCall s(stream);
  s.settle();
  int ret = REAL(ungetc)(c, stream);
  if (ret != EOF) s.pushed_back();
  return ret;
}

#define PUTC_HOOK(symbol, parameters, arguments, stream)                                  \
  TAILRACE_HOOK int symbol parameters {                                                   \
    if ((stream)->_IO_write_ptr < (stream)->_IO_write_end) return REAL(symbol) arguments; \
    StreamCall s(stream, locking_of(#symbol));                                            \
    s.expect_flush(1);                                                                    \
    int ret = REAL(symbol) arguments;                                                     \
    s.transferred_char(Fn::f_fputc, ret != EOF);                                          \
    return ret;                                                                           \
  }
PUTC_HOOK(fputc, (int c, FILE *out), (c, out), out)
PUTC_HOOK(putc, (int c, FILE *out), (c, out), out)
PUTC_HOOK(_IO_putc, (int c, FILE *out), (c, out), out)
PUTC_HOOK(fputc_unlocked, (int c, FILE *out), (c, out), out)
PUTC_HOOK(putc_unlocked, (int c, FILE *out), (c, out), out)
PUTC_HOOK(putchar, (int c), (c), stdout)
PUTC_HOOK(putchar_unlocked, (int c), (c), stdout)
PUTC_HOOK(__overflow, (FILE * out, int c), (out, c), out)

// Binary words.
TAILRACE_HOOK int putw(int word, FILE *out) {
  StreamCall s(out);
  s.settle();
  s.expect_flush(sizeof word);
  int ret = REAL(putw)(word, out);
  s.transferred(Fn::f_putw, sizeof word, ret == EOF ? -static_cast<int64_t>(errno) : static_cast<int64_t>(sizeof word));
  return ret;
}

TAILRACE_HOOK int getw(FILE *in) {
  StreamCall s(in);
  s.settle();
  int ret = REAL(getw)(in);
  s.transferred(Fn::f_getw, sizeof ret, ret == EOF && feof_unlocked(in) ? 0 : static_cast<int64_t>(sizeof ret));
  return ret;
}
