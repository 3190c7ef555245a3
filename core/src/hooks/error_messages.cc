// Hooks: messages to stderr, whose length libc does not return. It is computed by the rules of the man pages (err(3),
// error(3), perror(3)).
//
// err, error, warn and the like are no standard's, and short names: programs have libraries with functions of their own
// by these names and with other parameters, as Slurm's error(format, ...). Calls of those pass as they are, unrecorded.
#include <err.h>
#include <errno.h>
#include <error.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "hooks/messages.h"
#include "hooks/stream.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" void (*error_print_progname)(void);

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

__thread bool t_message_recorded;

// Recorded before the real call: err and error may not return.
class Message {
 public:
  Message(Fn fn, int64_t bytes) {
    int saved = errno;
    StreamCall s(stderr);
    s.settle();
    s.transferred(fn, static_cast<uint64_t>(bytes), bytes);
    t_message_recorded = true;
    errno = saved;
  }
  ~Message() { resume_after_message(); }
  Message(const Message &) = delete;
  Message &operator=(const Message &) = delete;
};

}  // namespace

void tailrace::resume_after_message() {
  if (!t_message_recorded) return;
  t_message_recorded = false;
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

namespace {

// How much of the stack is passed on, from where the caller's arguments begin: more than such functions take, but not past
// the stack's end, where the caller is the first function on it.
size_t passed_bytes(const void *arguments) {
  constexpr size_t kMost = 256, kPage = 4096;
  // The block of __builtin_apply_args() begins with their address.
  const char *from = *static_cast<const char *const *>(arguments);
  const size_t in_page = kPage - reinterpret_cast<uintptr_t>(from) % kPage;
  if (in_page >= kMost) return kMost;
  // The kernel reads the mask before it refuses what is to be done with it.
  constexpr int kNothingKnown = -1;
  const long status = sys::call(SYS_rt_sigprocmask, kNothingKnown, sys::pointer(from + in_page), 0, sizeof(uint64_t));
  return status == -EFAULT ? in_page : kMost;
}

}  // namespace

// Passes the call on with its registers and a part of its stack.
#define PASS_ON(symbol)                                                                                        \
  do {                                                                                                         \
    void *const arguments = __builtin_apply_args();                                                            \
    __builtin_return(__builtin_apply(reinterpret_cast<void (*)(...)>(real_address(Fn::f_##symbol)), arguments, \
                                     passed_bytes(arguments)));                                                \
  } while (false)

// Defined by other names than libc's: its declarations say that some of them never return.
#define NAMED(symbol) __asm__(#symbol)

#define WARN_HOOK(symbol, vsymbol, with_error)                                          \
  TAILRACE_HOOK void hooked_##vsymbol(const char *format, va_list args) NAMED(vsymbol); \
  TAILRACE_HOOK void hooked_##vsymbol(const char *format, va_list args) {               \
    if (is_not_libcs(Fn::f_##vsymbol)) PASS_ON(vsymbol);                                \
    Message message(Fn::f_##vsymbol, err_bytes(format, args, with_error));              \
    REAL(vsymbol)(format, args);                                                        \
  }                                                                                     \
  TAILRACE_HOOK void hooked_##symbol(const char *format, ...) NAMED(symbol);            \
  TAILRACE_HOOK void hooked_##symbol(const char *format, ...) {                         \
    if (is_not_libcs(Fn::f_##symbol) || is_not_libcs(Fn::f_##vsymbol)) PASS_ON(symbol); \
    va_list args;                                                                       \
    va_start(args, format);                                                             \
    hooked_##vsymbol(format, args);                                                     \
    va_end(args);                                                                       \
  }
WARN_HOOK(warn, vwarn, true)
WARN_HOOK(warnx, vwarnx, false)

#define ERR_HOOK(symbol, vsymbol, with_error)                                                       \
  TAILRACE_HOOK void hooked_##vsymbol(int status, const char *format, va_list args) NAMED(vsymbol); \
  TAILRACE_HOOK void hooked_##vsymbol(int status, const char *format, va_list args) {               \
    if (is_not_libcs(Fn::f_##vsymbol)) PASS_ON(vsymbol);                                            \
    Message message(Fn::f_##vsymbol, err_bytes(format, args, with_error));                          \
    REAL(vsymbol)(status, format, args);                                                            \
  }                                                                                                 \
  TAILRACE_HOOK void hooked_##symbol(int status, const char *format, ...) NAMED(symbol);            \
  TAILRACE_HOOK void hooked_##symbol(int status, const char *format, ...) {                         \
    if (is_not_libcs(Fn::f_##symbol) || is_not_libcs(Fn::f_##vsymbol)) PASS_ON(symbol);             \
    va_list args;                                                                                   \
    va_start(args, format);                                                                         \
    hooked_##vsymbol(status, format, args);                                                         \
    va_end(args);                                                                                   \
  }
ERR_HOOK(err, verr, true)
ERR_HOOK(errx, verrx, false)

namespace {

// error(3) has no form with a va_list, so its arguments are formatted here and passed on as text.
template <class Real>
void record_error(Fn fn, int64_t prefix, int errnum, const char *format, va_list args, Real &&real_call) {
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
  if (is_not_libcs(Fn::f_error)) PASS_ON(error);
  va_list args;
  va_start(args, format);
  int64_t prefix = error_print_progname ? 0 : program_bytes() + 2;
  record_error(Fn::f_error, prefix, errnum, format, args, [&](const char *text) {
    REAL(error)(status, errnum, "%s", text);
  });
  va_end(args);
}

TAILRACE_HOOK void error_at_line(int status, int errnum, const char *file, unsigned line, const char *format, ...) {
  if (is_not_libcs(Fn::f_error_at_line)) PASS_ON(error_at_line);
  va_list args;
  va_start(args, format);
  int64_t place = file ? static_cast<int64_t>(strlen(file)) + 1 + decimal_digits(line) + 2 : 1;
  int64_t prefix = (error_print_progname ? 0 : program_bytes() + 1) + place;
  record_error(Fn::f_error_at_line, prefix, errnum, format, args, [&](const char *text) {
    REAL(error_at_line)(status, errnum, file, line, "%s", text);
  });
  va_end(args);
}
