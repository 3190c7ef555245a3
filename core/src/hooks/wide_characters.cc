// Hooks: wide characters in streams, whose bytes depend on the locale: those of a text by encoding it again, or by the
// positions of its file.
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <wchar.h>

#include "hooks/stream.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
wchar_t *__fgetws_chk(wchar_t *, size_t, int, FILE *);
wchar_t *__fgetws_unlocked_chk(wchar_t *, size_t, int, FILE *);
int __vfwprintf_chk(FILE *, int, const wchar_t *, va_list);
int __vwprintf_chk(int, const wchar_t *, va_list);
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
