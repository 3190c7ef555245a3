// Hooks: messages to stderr, whose length libc does not return. It is computed by the rules of the man pages (err(3),
// error(3), perror(3)).
//
// err, error, warn and the like are no standard's, and short names: programs have libraries with functions of their own
// by these names and with other parameters, as Slurm's error(format, ...). Calls of those pass as they are, unrecorded.
// (Of the libraries on a full Debian 40 have an `error`; whatever else shares a hook's name shares its meaning.)
// Gates are assembly, since __builtin_apply copies a guessed part of the stack, and clang lacks it.
#include <err.h>
#include <errno.h>
#include <error.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/messages.h"
#include "hooks/stream.h"
#include "linker/lookup.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" void (*error_print_progname)(void);
extern "C" const char *const sys_siglist[NSIG] __attribute__((weak));

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
    s.transferred_elsewhere(fn, bytes);
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

namespace {

// sigdescr_np() is new in glibc 2.32, with which nothing can be linked with the table any more.
const char *signal_description(int signal) {
  using Describe = const char *(int);
  static auto *const describe = reinterpret_cast<Describe *>(find_in_libc("sigdescr_np"));
  if (describe) return describe(signal);
  return sys_siglist && signal > 0 && signal < NSIG ? sys_siglist[signal] : nullptr;
}

}  // namespace

TAILRACE_HOOK void psignal(int signal, const char *text) {
  int64_t prefix = text && *text ? static_cast<int64_t>(strlen(text)) + 2 : 0;
  const char *name = signal_description(signal);
  Message message(Fn::f_psignal, prefix + (name ? static_cast<int64_t>(strlen(name)) : 0) + 1);
  REAL(psignal)(signal, text);
}

namespace {

// The function of another library that the calls are meant for; null where it is libc's. A function and its form with a
// va_list are of one library: libc's own goes through neither.
void *others_function(Fn f, Fn other_form) {
  return is_not_libcs(f) || is_not_libcs(other_form) ? real_address(f) : nullptr;
}

}  // namespace

// A hook is a gate: it keeps the registers that may have arguments, asks for another library's function, and jumps to
// that one or to the recording function below, with registers and stack as the caller left them. What the arguments are
// need not be known.
#if defined(__x86_64__)
#define GATE_CODE(symbol)                                                                \
  ".cfi_startproc; endbr64; pushq %rbp; .cfi_def_cfa_offset 16; .cfi_offset %rbp, -16\n" \
  "movq %rsp, %rbp; .cfi_def_cfa_register %rbp; subq $192, %rsp\n"                       \
  "movq %rdi, (%rsp); movq %rsi, 8(%rsp); movq %rdx, 16(%rsp); movq %rcx, 24(%rsp)\n"    \
  "movq %r8, 32(%rsp); movq %r9, 40(%rsp); movq %rax, 48(%rsp)\n"                        \
  "movaps %xmm0, 64(%rsp); movaps %xmm1, 80(%rsp); movaps %xmm2, 96(%rsp)\n"             \
  "movaps %xmm3, 112(%rsp); movaps %xmm4, 128(%rsp); movaps %xmm5, 144(%rsp)\n"          \
  "movaps %xmm6, 160(%rsp); movaps %xmm7, 176(%rsp)\n"                                   \
  "call tailrace_others_" #symbol                                                        \
  "; movq %rax, %r11\n"                                                                  \
  "movq (%rsp), %rdi; movq 8(%rsp), %rsi; movq 16(%rsp), %rdx; movq 24(%rsp), %rcx\n"    \
  "movq 32(%rsp), %r8; movq 40(%rsp), %r9; movq 48(%rsp), %rax\n"                        \
  "movaps 64(%rsp), %xmm0; movaps 80(%rsp), %xmm1; movaps 96(%rsp), %xmm2\n"             \
  "movaps 112(%rsp), %xmm3; movaps 128(%rsp), %xmm4; movaps 144(%rsp), %xmm5\n"          \
  "movaps 160(%rsp), %xmm6; movaps 176(%rsp), %xmm7\n"                                   \
  "leave; .cfi_def_cfa %rsp, 8; testq %r11, %r11; je 1f; jmp *%r11\n"                    \
  "1: jmp tailrace_recorded_" #symbol "\n.cfi_endproc\n"
#elif defined(__aarch64__)
#define GATE_CODE(symbol)                                                                        \
  ".cfi_startproc; stp x29, x30, [sp, #-224]!; .cfi_def_cfa_offset 224; .cfi_offset x29, -224\n" \
  ".cfi_offset x30, -216; mov x29, sp; stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32]\n"           \
  "stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64]; str x8, [sp, #80]\n"                            \
  "stp q0, q1, [sp, #96]; stp q2, q3, [sp, #128]; stp q4, q5, [sp, #160]\n"                      \
  "stp q6, q7, [sp, #192]; bl tailrace_others_" #symbol                                          \
  "; mov x16, x0\n"                                                                              \
  "ldp x0, x1, [sp, #16]; ldp x2, x3, [sp, #32]; ldp x4, x5, [sp, #48]\n"                        \
  "ldp x6, x7, [sp, #64]; ldr x8, [sp, #80]; ldp q0, q1, [sp, #96]; ldp q2, q3, [sp, #128]\n"    \
  "ldp q4, q5, [sp, #160]; ldp q6, q7, [sp, #192]; ldp x29, x30, [sp], #224\n"                   \
  ".cfi_def_cfa_offset 0; .cfi_restore x29; .cfi_restore x30; cbz x16, 1f; br x16\n"             \
  "1: b tailrace_recorded_" #symbol "\n.cfi_endproc\n"
#endif
#define GATE(symbol, other_form)                                                            \
  extern "C" __attribute__((visibility("hidden"), used)) void *tailrace_others_##symbol() { \
    return others_function(Fn::f_##symbol, Fn::f_##other_form);                             \
  }                                                                                         \
  __asm__(".text\n.balign 16\n.globl " #symbol "\n.type " #symbol ", %function\n" #symbol   \
          ":\n" GATE_CODE(symbol) ".size " #symbol ", .-" #symbol "\n");

// Of another name than libc's, whose declarations say that some of them never return.
#define RECORDED(symbol) __asm__("tailrace_recorded_" #symbol) __attribute__((visibility("hidden"), used))

#define WARN_HOOK(symbol, vsymbol, with_error)                                            \
  GATE(vsymbol, vsymbol)                                                                  \
  GATE(symbol, vsymbol)                                                                   \
  extern "C" void recorded_##vsymbol(const char *format, va_list args) RECORDED(vsymbol); \
  extern "C" void recorded_##vsymbol(const char *format, va_list args) {                  \
    Message message(Fn::f_##vsymbol, err_bytes(format, args, with_error));                \
    REAL(vsymbol)(format, args);                                                          \
  }                                                                                       \
  extern "C" void recorded_##symbol(const char *format, ...) RECORDED(symbol);            \
  extern "C" void recorded_##symbol(const char *format, ...) {                            \
    va_list args;                                                                         \
    va_start(args, format);                                                               \
    recorded_##vsymbol(format, args);                                                     \
    va_end(args);                                                                         \
  }
WARN_HOOK(warn, vwarn, true)
WARN_HOOK(warnx, vwarnx, false)

#define ERR_HOOK(symbol, vsymbol, with_error)                                                         \
  GATE(vsymbol, vsymbol)                                                                              \
  GATE(symbol, vsymbol)                                                                               \
  extern "C" void recorded_##vsymbol(int status, const char *format, va_list args) RECORDED(vsymbol); \
  extern "C" void recorded_##vsymbol(int status, const char *format, va_list args) {                  \
    Message message(Fn::f_##vsymbol, err_bytes(format, args, with_error));                            \
    REAL(vsymbol)(status, format, args);                                                              \
  }                                                                                                   \
  extern "C" void recorded_##symbol(int status, const char *format, ...) RECORDED(symbol);            \
  extern "C" void recorded_##symbol(int status, const char *format, ...) {                            \
    va_list args;                                                                                     \
    va_start(args, format);                                                                           \
    recorded_##vsymbol(status, format, args);                                                         \
    va_end(args);                                                                                     \
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

GATE(error, error)
extern "C" void recorded_error(int status, int errnum, const char *format, ...) RECORDED(error);
extern "C" void recorded_error(int status, int errnum, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int64_t prefix = error_print_progname ? 0 : program_bytes() + 2;
  record_error(Fn::f_error, prefix, errnum, format, args, [&](const char *text) {
    REAL(error)(status, errnum, "%s", text);
  });
  va_end(args);
}

GATE(error_at_line, error_at_line)
extern "C" void recorded_error_at_line(int status, int errnum, const char *file, unsigned line, const char *format, ...)
    RECORDED(error_at_line);
extern "C" void recorded_error_at_line(int status, int errnum, const char *file, unsigned line, const char *format,
                                       ...) {
  va_list args;
  va_start(args, format);
  int64_t place = file ? static_cast<int64_t>(strlen(file)) + 1 + decimal_digits(line) + 2 : 1;
  int64_t prefix = (error_print_progname ? 0 : program_bytes() + 1) + place;
  record_error(Fn::f_error_at_line, prefix, errnum, format, args, [&](const char *text) {
    REAL(error_at_line)(status, errnum, file, line, "%s", text);
  });
  va_end(args);
}
