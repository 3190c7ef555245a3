// Hooks: calls in which libc itself writes to a stream of the program without returning the length: complaints about
// options, entries of tables. The bytes are the kernel's account of the thread around the call (LibcCall) and what is
// in the stream's buffer after it. And calls that read entries of tables, whose bytes are the difference of the
// stream's positions.
#include <argp.h>
#include <assert.h>
#include <execinfo.h>
#include <fmtmsg.h>
#include <getopt.h>
#include <grp.h>
#include <gshadow.h>
#include <libintl.h>
#include <malloc.h>
#include <mntent.h>
#include <netdb.h>
#include <pwd.h>
#include <shadow.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/hook_records.h"
#include "hooks/libc/libc_call.h"
#include "hooks/messages.h"
#include "hooks/stream.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
int __posix_getopt(int, char *const *, const char *) noexcept;
struct mntent *__getmntent_r(FILE *, struct mntent *, char *, int);
}

namespace {

__thread MessageCall *t_message;

// Whether an argument may cause a complaint. Most calls have none, and are not measured.
bool may_complain(int argc, char *const *argv, const char *options) {
  if (!opterr || !options || !argv) return false;
  if (*options == '+' || *options == '-') ++options;
  if (*options == ':') return false;
  for (int i = optind > 0 ? optind : 1; i < argc && argv[i]; ++i) {
    if (argv[i][0] == '-' && argv[i][1]) return true;
  }
  return false;
}

}  // namespace

namespace tailrace {

MessageCall::MessageCall(Fn fn, FILE *stream, FILE *other, FILE *input)
    : fn_(fn),
      streams_{stream, other},
      input_(input ? input : stream),
      outer_(t_message),
      thread_(enter()),
      account_(thread_) {
  for (FILE *s : streams_) {
    if (s) StreamCall(s).settle();
  }
  for (int i = 0; i < 2; ++i) unflushed_[i] = streams_[i] ? unwritten_bytes(streams_[i]) : 0;
  unread_ = unread_bytes(input_);
  buffered_ = streams_[1] && streams_[1]->_IO_write_base;
  t_message = this;
}

void MessageCall::finish() {
  if (t_message != this) return;
  t_message = outer_;
  int saved = errno;
  int64_t bytes[2];
  if (t_thread == thread_ && account_.finish(bytes)) {
    bool to_other = streams_[1] && (unwritten_bytes(streams_[1]) != unflushed_[1] ||
                                    buffered_ != (streams_[1]->_IO_write_base != nullptr));
    FILE *stream = streams_[to_other];
    int64_t n = bytes[kWritten] + unwritten_bytes(stream) - unflushed_[to_other];
    StreamCall s(stream);
    // A seek may have read ahead, and for translated texts libc reads catalogues.
    count_ahead(bytes[kRead] - (unread_bytes(input_) - unread_));
    s.resume();
    if (n > 0) s.transferred_elsewhere(fn_, n);
  }
  errno = saved;
}

void finish_interrupted_message() {
  resume_after_message();
  if (t_message) t_message->finish();
}

}  // namespace tailrace

// Measured only if `condition`, and only where anything is recorded.
#define MESSAGE_HOOK(type, symbol, parameters, arguments, condition, ...) \
  TAILRACE_HOOK type symbol parameters {                                  \
    if (!(condition) || !enter()) return REAL(symbol) arguments;          \
    MessageCall message(Fn::f_##symbol, __VA_ARGS__);                     \
    return REAL(symbol) arguments;                                        \
  }

#define OPTION_HOOK(symbol, parameters, arguments) \
  MESSAGE_HOOK(int, symbol, parameters noexcept, arguments, may_complain(argc, argv, options), stderr)
OPTION_HOOK(getopt, (int argc, char *const *argv, const char *options), (argc, argv, options))
OPTION_HOOK(__posix_getopt, (int argc, char *const *argv, const char *options), (argc, argv, options))
OPTION_HOOK(getopt_long, (int argc, char *const *argv, const char *options, const struct option *names, int *which),
            (argc, argv, options, names, which))
OPTION_HOOK(getopt_long_only,
            (int argc, char *const *argv, const char *options, const struct option *names, int *which),
            (argc, argv, options, names, which))

MESSAGE_HOOK(error_t, argp_parse,
             (const struct argp *argp, int argc, char **argv, unsigned flags, int *next, void *input),
             (argp, argc, argv, flags, next, input), true, stderr, stdout)
MESSAGE_HOOK(void, psiginfo, (const siginfo_t *info, const char *text), (info, text), true, stderr)
MESSAGE_HOOK(void, herror, (const char *text) noexcept, (text), true, stderr)
MESSAGE_HOOK(int, fmtmsg,
             (long where, const char *label, int severity, const char *text, const char *action, const char *tag),
             (where, label, severity, text, action, tag), true, stderr)
MESSAGE_HOOK(void, malloc_stats, () noexcept, (), true, stderr)
MESSAGE_HOOK(int, malloc_info, (int options, FILE *out) noexcept, (options, out), out != nullptr, out)

MESSAGE_HOOK(int, putpwent, (const struct passwd *entry, FILE *out), (entry, out), out != nullptr, out)
MESSAGE_HOOK(int, putgrent, (const struct group *entry, FILE *out), (entry, out), out != nullptr, out)
MESSAGE_HOOK(int, putspent, (const struct spwd *entry, FILE *out), (entry, out), out != nullptr, out)
MESSAGE_HOOK(int, putsgent, (const struct sgrp *entry, FILE *out), (entry, out), out != nullptr, out)
MESSAGE_HOOK(int, addmntent, (FILE * out, const struct mntent *entry) noexcept, (out, entry), out != nullptr, out)

// Without a terminal libc prompts on stderr and reads stdin.
TAILRACE_HOOK char *getpass(const char *prompt) {
  if (!enter()) return REAL(getpass)(prompt);
  int terminal = sys::open("/dev/tty", O_RDWR | O_NOCTTY);
  if (terminal >= 0) {
    sys::close(terminal);
    return in_libc(Fn::f_getpass, Leave::kBothWays, [&] { return REAL(getpass)(prompt); });
  }
  MessageCall asking(Fn::kAsked, stderr, nullptr, stdin);
  return consume(Fn::kAnswered, stdin, [&] { return REAL(getpass)(prompt); });
}

// Recorded before the call: it does not return, and libc writes the message at once.
static void record_assertion(Fn fn, const char *format, const char *file, unsigned line, const char *function,
                             const char *what) {
  int none, saved = errno;
  const char *name = program_invocation_short_name;
  int64_t n = snprintf(nullptr, 0, dgettext("libc", format), name, *name ? ": " : "", file, line,
                       function ? function : "", function ? ": " : "", what, &none);
  StreamCall s(stderr);
  s.settle();
  s.transferred_elsewhere(fn, n);
  s.release();
  errno = saved;
}

TAILRACE_HOOK void __assert_fail(const char *assertion, const char *file, unsigned line,
                                 const char *function) noexcept {
  record_assertion(Fn::f___assert_fail, "%s%s%s:%u: %s%sAssertion `%s' failed.\n%n", file, line, function, assertion);
  REAL(__assert_fail)(assertion, file, line, function);
  __builtin_unreachable();
}

TAILRACE_HOOK void __assert(const char *assertion, const char *file, int line) noexcept {
  record_assertion(Fn::f___assert, "%s%s%s:%u: %s%sAssertion `%s' failed.\n%n", file, static_cast<unsigned>(line),
                   nullptr, assertion);
  REAL(__assert)(assertion, file, line);
  __builtin_unreachable();
}

TAILRACE_HOOK void __assert_perror_fail(int error, const char *file, unsigned line, const char *function) noexcept {
  char text[1024];
  record_assertion(Fn::f___assert_perror_fail, "%s%s%s:%u: %s%sUnexpected error: %s.\n%n", file, line, function,
                   strerror_r(error, text, sizeof text));
  REAL(__assert_perror_fail)(error, file, line, function);
  __builtin_unreachable();
}

TAILRACE_HOOK void backtrace_symbols_fd(void *const *frames, int n, int fd) noexcept {
  Call call;
  Thread *t = call.thread();
  if (!t) return REAL(backtrace_symbols_fd)(frames, n, fd);
  LibcCall account(t);
  REAL(backtrace_symbols_fd)(frames, n, fd);
  int64_t bytes[2];
  if (!account.finish(bytes)) return;
  record_transfer(call, Fn::f_backtrace_symbols_fd, fd, kHere, static_cast<uint64_t>(bytes[kWritten]), bytes[kWritten]);
}

#define TABLE_HOOKS(row, symbol)                                                                     \
  TAILRACE_HOOK struct row *symbol(FILE *in) {                                                       \
    return consume(Fn::f_##symbol, in, [&] { return REAL(symbol)(in); });                            \
  }                                                                                                  \
  TAILRACE_HOOK int symbol##_r(FILE *in, struct row *into, char *buf, size_t n, struct row **out) {  \
    return consume(Fn::f_##symbol##_r, in, [&] { return REAL(symbol##_r)(in, into, buf, n, out); }); \
  }
TABLE_HOOKS(passwd, fgetpwent)
TABLE_HOOKS(group, fgetgrent)
TABLE_HOOKS(spwd, fgetspent)
TABLE_HOOKS(sgrp, fgetsgent)

#define MOUNT_HOOK(symbol, parameters, arguments)                               \
  TAILRACE_HOOK struct mntent *symbol parameters {                              \
    return consume(Fn::f_##symbol, in, [&] { return REAL(symbol) arguments; }); \
  }
MOUNT_HOOK(getmntent, (FILE * in) noexcept, (in))
MOUNT_HOOK(getmntent_r, (FILE * in, struct mntent *into, char *buf, int n) noexcept, (in, into, buf, n))
MOUNT_HOOK(__getmntent_r, (FILE * in, struct mntent *into, char *buf, int n), (in, into, buf, n))
