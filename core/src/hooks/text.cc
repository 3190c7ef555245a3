// Hooks: messages to stderr, whose length libc does not return, and wide characters, whose bytes depend on the locale. A
// message's length is computed by the rules of its man page (err(3), error(3), perror(3)), that of a wide text by encoding
// it again.
#include <err.h>
#include <error.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "hooks/hook_records.h"
#include "hooks/messages.h"
#include "hooks/stream.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
wchar_t *__fgetws_chk(wchar_t *, size_t, int, FILE *);
wchar_t *__fgetws_unlocked_chk(wchar_t *, size_t, int, FILE *);
int __vfwprintf_chk(FILE *, int, const wchar_t *, va_list);
int __vwprintf_chk(int, const wchar_t *, va_list);
extern void (*error_print_progname)(void);
wint_t __wuflow(FILE *);
wint_t __wunderflow(FILE *);
wint_t __woverflow(FILE *, wint_t);
int gnu_vfwscanf(FILE *, const wchar_t *, va_list) __asm__("vfwscanf");
int gnu_fwscanf(FILE *, const wchar_t *, ...) __asm__("fwscanf");
int gnu_vwscanf(const wchar_t *, va_list) __asm__("vwscanf");
int gnu_wscanf(const wchar_t *, ...) __asm__("wscanf");
int c99_vfwscanf(FILE *, const wchar_t *, va_list) __asm__("__isoc99_vfwscanf");
int c99_fwscanf(FILE *, const wchar_t *, ...) __asm__("__isoc99_fwscanf");
int c99_vwscanf(const wchar_t *, va_list) __asm__("__isoc99_vwscanf");
int c99_wscanf(const wchar_t *, ...) __asm__("__isoc99_wscanf");
}

namespace {

int64_t formatted_bytes(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int saved = errno;
  int n = format ? vsnprintf(nullptr, 0, format, again) : 0;
  errno = saved;
  va_end(again);
  return n > 0 ? n : 0;
}

int64_t description_bytes(int error) {
  char text[256];
  int saved = errno;
  int64_t n = static_cast<int64_t>(strlen(strerror_r(error, text, sizeof text)));
  errno = saved;
  return n;
}

// "<program>: [<message>][: <error>]\n"
int64_t err_bytes(const char *format, va_list args, bool with_error) {
  int64_t n = static_cast<int64_t>(strlen(program_invocation_short_name)) + 2 + formatted_bytes(format, args) + 1;
  return with_error ? n + (format ? 2 : 0) + description_bytes(errno) : n;
}

__thread bool t_said;

// Recorded before the real call: err and error may not return.
class Message {
 public:
  Message(Fn fn, int64_t bytes) {
    int saved = errno;
    StreamCall s(stderr);
    s.settle();
    s.transferred(fn, static_cast<uint64_t>(bytes), bytes);
    t_said = true;
    errno = saved;
  }
  ~Message() { take_message_in(); }
  Message(const Message &) = delete;
  Message &operator=(const Message &) = delete;
};

}  // namespace

void tailrace::take_message_in() {
  if (!t_said) return;
  t_said = false;
  StreamCall(stderr).resume();
}

TAILRACE_HOOK void perror(const char *text) {
  int64_t prefix = text && *text ? static_cast<int64_t>(strlen(text)) + 2 : 0;
  Message message(Fn::f_perror, prefix + description_bytes(errno) + 1);
  REAL(perror)(text);
}

TAILRACE_HOOK void psignal(int signal, const char *text) {
  int64_t prefix = text && *text ? static_cast<int64_t>(strlen(text)) + 2 : 0;
  const char *name = sigdescr_np(signal);
  Message message(Fn::f_psignal, prefix + (name ? static_cast<int64_t>(strlen(name)) : 0) + 1);
  REAL(psignal)(signal, text);
}

#define WARN_HOOK(symbol, vsymbol, with_error)                             \
  TAILRACE_HOOK void vsymbol(const char *format, va_list args) {           \
    Message message(Fn::f_##vsymbol, err_bytes(format, args, with_error)); \
    REAL(vsymbol)(format, args);                                           \
  }                                                                        \
  TAILRACE_HOOK void symbol(const char *format, ...) {                     \
    va_list args;                                                          \
    va_start(args, format);                                                \
    vsymbol(format, args);                                                 \
    va_end(args);                                                          \
  }
WARN_HOOK(warn, vwarn, true)
WARN_HOOK(warnx, vwarnx, false)

#define ERR_HOOK(symbol, vsymbol, with_error)                                \
  TAILRACE_HOOK void vsymbol(int status, const char *format, va_list args) { \
    Message message(Fn::f_##vsymbol, err_bytes(format, args, with_error));   \
    REAL(vsymbol)(status, format, args);                                     \
    __builtin_unreachable();                                                 \
  }                                                                          \
  TAILRACE_HOOK void symbol(int status, const char *format, ...) {           \
    va_list args;                                                            \
    va_start(args, format);                                                  \
    vsymbol(status, format, args);                                           \
    __builtin_unreachable();                                                 \
  }
ERR_HOOK(err, verr, true)
ERR_HOOK(errx, verrx, false)

namespace {

// error(3) has no form with a va_list, so its arguments are formatted here and passed on as text.
template <class Say>
void say_error(Fn fn, int64_t prefix, int errnum, const char *format, va_list args, Say &&real_call) {
  char small[512];
  va_list again;
  va_copy(again, args);
  int saved = errno;
  int n = vsnprintf(small, sizeof small, format, args);
  char *text = small;
  if (n >= static_cast<int>(sizeof small)) {
    text = static_cast<char *>(malloc(static_cast<size_t>(n) + 1));
    if (text) vsnprintf(text, static_cast<size_t>(n) + 1, format, again);
  }
  va_end(again);
  // libc's function flushes stdout first.
  StreamCall out(stdout);
  out.settle();
  Message message(fn, prefix + (n > 0 ? n : 0) + (errnum ? 2 + description_bytes(errnum) : 0) + 1);
  errno = saved;
  real_call(text ? text : small);
  if (text != small) free(text);
}

int64_t program_bytes() { return static_cast<int64_t>(strlen(program_invocation_name)); }

int decimal_digits(unsigned v) { return static_cast<int>(digit_count(v)); }

}  // namespace

TAILRACE_HOOK void error(int status, int errnum, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int64_t prefix = error_print_progname ? 0 : program_bytes() + 2;
  say_error(Fn::f_error, prefix, errnum, format, args, [&](const char *text) {
    REAL(error)(status, errnum, "%s", text);
  });
  va_end(args);
}

TAILRACE_HOOK void error_at_line(int status, int errnum, const char *file, unsigned line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int64_t place = file ? static_cast<int64_t>(strlen(file)) + 1 + decimal_digits(line) + 2 : 1;
  int64_t prefix = (error_print_progname ? 0 : program_bytes() + 1) + place;
  say_error(Fn::f_error_at_line, prefix, errnum, format, args, [&](const char *text) {
    REAL(error_at_line)(status, errnum, file, line, "%s", text);
  });
  va_end(args);
}

TAILRACE_HOOK int putw(int word, FILE *out) {
  StreamCall s(out);
  s.settle();
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

namespace {

// The text in the locale's encoding; what has no encoding was not moved either.
int64_t encoded_bytes(const wchar_t *text, size_t n) {
  char bytes[MB_LEN_MAX];
  mbstate_t state{};
  int64_t sum = 0;
  for (size_t i = 0; i < n; ++i) {
    size_t one = wcrtomb(bytes, text[i], &state);
    if (one != static_cast<size_t>(-1)) sum += static_cast<int64_t>(one);
  }
  return sum;
}

int64_t encoded_bytes(wint_t c) {
  auto character = static_cast<wchar_t>(c);
  return c == WEOF ? 0 : encoded_bytes(&character, 1);
}

template <class Real>
auto wide_call(Fn fn, FILE *stream, Locking locking, Real &&real_call) {
  StreamCall s(stream, locking);
  s.settle();
  // A file with an encoding of its own (fopen's ",ccs=") has the bytes in its positions.
  bool translates = s && s.file()->translates && is_seekable(s.file());
  int64_t before = translates ? ftello64(stream) : -1;
  auto [ret, bytes] = real_call();
  if (s) {
    int saved = errno;
    int64_t n = before >= 0 ? ftello64(stream) - before : bytes();
    s.transferred(fn, static_cast<uint64_t>(n), n);
    errno = saved;
  }
  return ret;
}

template <class Ret, class Bytes>
struct WideResult {
  Ret ret;
  Bytes bytes;
};
template <class Ret, class Bytes>
WideResult(Ret, Bytes) -> WideResult<Ret, Bytes>;

}  // namespace

#define WIDE_CHAR_HOOK(symbol, parameters, arguments, stream)             \
  TAILRACE_HOOK wint_t symbol parameters {                                \
    return wide_call(Fn::f_##symbol, stream, locking_of(#symbol), [&] {   \
      wint_t moved = REAL(symbol) arguments;                              \
      return WideResult{moved, [moved] { return encoded_bytes(moved); }}; \
    });                                                                   \
  }
WIDE_CHAR_HOOK(fputwc, (wchar_t c, FILE *out), (c, out), out)
WIDE_CHAR_HOOK(putwc, (wchar_t c, FILE *out), (c, out), out)
WIDE_CHAR_HOOK(putwchar, (wchar_t c), (c), stdout)
WIDE_CHAR_HOOK(fputwc_unlocked, (wchar_t c, FILE *out), (c, out), out)
WIDE_CHAR_HOOK(putwc_unlocked, (wchar_t c, FILE *out), (c, out), out)
WIDE_CHAR_HOOK(putwchar_unlocked, (wchar_t c), (c), stdout)
WIDE_CHAR_HOOK(fgetwc, (FILE * in), (in), in)
WIDE_CHAR_HOOK(getwc, (FILE * in), (in), in)
WIDE_CHAR_HOOK(getwchar, (), (), stdin)
WIDE_CHAR_HOOK(fgetwc_unlocked, (FILE * in), (in), in)
WIDE_CHAR_HOOK(getwc_unlocked, (FILE * in), (in), in)
WIDE_CHAR_HOOK(getwchar_unlocked, (), (), stdin)

WIDE_CHAR_HOOK(__wuflow, (FILE * in), (in), in)
WIDE_CHAR_HOOK(__woverflow, (FILE * out, wint_t c), (out, c), out)

// Looking ahead and pushing back move no bytes.
TAILRACE_HOOK wint_t __wunderflow(FILE *in) {
  StreamCall s(in, Locking::kCallerHas);
  s.settle();
  wint_t ret = REAL(__wunderflow)(in);
  s.resume();
  return ret;
}

TAILRACE_HOOK wint_t ungetwc(wint_t c, FILE *in) {
  StreamCall s(in);
  s.settle();
  wint_t ret = REAL(ungetwc)(c, in);
  s.resume();
  return ret;
}

#define FPUTWS_HOOK(symbol)                                                                    \
  TAILRACE_HOOK int symbol(const wchar_t *text, FILE *out) {                                   \
    return wide_call(Fn::f_##symbol, out, locking_of(#symbol), [&] {                           \
      int ret = REAL(symbol)(text, out);                                                       \
      return WideResult{ret, [=] { return ret < 0 ? 0 : encoded_bytes(text, wcslen(text)); }}; \
    });                                                                                        \
  }
FPUTWS_HOOK(fputws)
FPUTWS_HOOK(fputws_unlocked)

#define FGETWS_HOOK(symbol, parameters, arguments)                                       \
  TAILRACE_HOOK wchar_t *symbol parameters {                                             \
    return wide_call(Fn::f_##symbol, in, locking_of(#symbol), [&] {                      \
      wchar_t *ret = REAL(symbol) arguments;                                             \
      return WideResult{ret, [=] { return ret ? encoded_bytes(ret, wcslen(ret)) : 0; }}; \
    });                                                                                  \
  }
FGETWS_HOOK(fgetws, (wchar_t * buf, int n, FILE *in), (buf, n, in))
FGETWS_HOOK(fgetws_unlocked, (wchar_t * buf, int n, FILE *in), (buf, n, in))
FGETWS_HOOK(__fgetws_chk, (wchar_t * buf, size_t room, int n, FILE *in), (buf, room, n, in))
FGETWS_HOOK(__fgetws_unlocked_chk, (wchar_t * buf, size_t room, int n, FILE *in), (buf, room, n, in))

namespace {

// The call returns characters; where the file has positions, their difference is the bytes.
template <class Print>
int print_wide(Fn fn, FILE *out, Print &&real_call) {
  StreamCall s(out);
  s.settle();
  bool seekable = s && is_seekable(s.file());
  int64_t before = seekable ? ftello64(out) : -1;
  int ret = real_call();
  int saved = errno;
  int64_t after = before >= 0 ? ftello64(out) : -1;
  int64_t bytes = after >= 0 ? after - before : ret;
  s.transferred(fn, bytes > 0 ? static_cast<uint64_t>(bytes) : 0, bytes > 0 ? bytes : 0);
  errno = saved;
  return ret;
}

}  // namespace

#define WIDE_PRINT_HOOK(symbol, vsymbol, parameters, vparameters, stream, ...)                    \
  TAILRACE_HOOK int vsymbol vparameters {                                                         \
    return print_wide(Fn::f_##vsymbol, stream, [&] { return REAL(vsymbol)(__VA_ARGS__, args); }); \
  }                                                                                               \
  TAILRACE_HOOK int symbol parameters {                                                           \
    va_list args;                                                                                 \
    va_start(args, format);                                                                       \
    int ret = vsymbol(__VA_ARGS__, args);                                                         \
    va_end(args);                                                                                 \
    return ret;                                                                                   \
  }
WIDE_PRINT_HOOK(fwprintf, vfwprintf, (FILE * out, const wchar_t *format, ...),
                (FILE * out, const wchar_t *format, va_list args), out, out, format)
WIDE_PRINT_HOOK(wprintf, vwprintf, (const wchar_t *format, ...), (const wchar_t *format, va_list args), stdout, format)
WIDE_PRINT_HOOK(__fwprintf_chk, __vfwprintf_chk, (FILE * out, int flag, const wchar_t *format, ...),
                (FILE * out, int flag, const wchar_t *format, va_list args), out, out, flag, format)
WIDE_PRINT_HOOK(__wprintf_chk, __vwprintf_chk, (int flag, const wchar_t *format, ...),
                (int flag, const wchar_t *format, va_list args), stdout, flag, format)

namespace {

// As print_wide. Without positions the bytes are unknown, and none are recorded.
template <class Scan>
int scan_wide(Fn fn, FILE *in, Scan &&real_call) {
  StreamCall s(in);
  s.settle();
  bool seekable = s && is_seekable(s.file());
  int64_t before = seekable ? ftello64(in) : -1;
  int ret = real_call();
  int saved = errno;
  int64_t after = before >= 0 ? ftello64(in) : -1;
  s.transferred(fn, kNoCount, after > before ? after - before : 0);
  errno = saved;
  return ret;
}

}  // namespace

// The headers declare the C99 forms to C++ under the old names; here both symbols are needed.
#define WIDE_SCAN_HOOKS(prefix, vsymbol)                                                   \
  TAILRACE_HOOK int prefix##_vfwscanf(FILE *in, const wchar_t *format, va_list args) {     \
    auto *real = reinterpret_cast<decltype(&gnu_vfwscanf)>(real_address(Fn::f_##vsymbol)); \
    return scan_wide(Fn::f_##vsymbol, in, [&] { return real(in, format, args); });         \
  }                                                                                        \
  TAILRACE_HOOK int prefix##_fwscanf(FILE *in, const wchar_t *format, ...) {               \
    va_list args;                                                                          \
    va_start(args, format);                                                                \
    int ret = prefix##_vfwscanf(in, format, args);                                         \
    va_end(args);                                                                          \
    return ret;                                                                            \
  }                                                                                        \
  TAILRACE_HOOK int prefix##_vwscanf(const wchar_t *format, va_list args) {                \
    return prefix##_vfwscanf(stdin, format, args);                                         \
  }                                                                                        \
  TAILRACE_HOOK int prefix##_wscanf(const wchar_t *format, ...) {                          \
    va_list args;                                                                          \
    va_start(args, format);                                                                \
    int ret = prefix##_vfwscanf(stdin, format, args);                                      \
    va_end(args);                                                                          \
    return ret;                                                                            \
  }
WIDE_SCAN_HOOKS(gnu, vfwscanf)
WIDE_SCAN_HOOKS(c99, __isoc99_vfwscanf)
