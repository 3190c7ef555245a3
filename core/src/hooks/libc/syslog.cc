// Hooks: the system's log. On request of openlog libc also writes a message to stderr's descriptor (LOG_PERROR) or to
// the console (LOG_CONS), without a hook: the bytes are the kernel's account of the thread around the call.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "hooks/libc/time_zone.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
void __syslog_chk(int, int, const char *, ...);
void __vsyslog_chk(int, int, const char *, va_list);
}

namespace {

// The arguments of openlog; libc keeps the pointer, too.
std::atomic<int> g_option;
std::atomic<const char *> g_ident;

// The length of a message without its newline: "<ident>[<pid>]: <text>".
int64_t message_bytes(int option, const char *format, va_list args) {
  const char *ident = g_ident.load(std::memory_order_relaxed);
  if (!ident) ident = program_invocation_short_name;
  int64_t n = static_cast<int64_t>(strlen(ident)) + 2;
  if (option & LOG_PID) n += snprintf(nullptr, 0, "[%d]", g_session.pid);
  va_list again;
  va_copy(again, args);
  n += vsnprintf(nullptr, 0, format, again);
  va_end(again);
  return n;
}

template <class Say>
void log_message(Fn fn, const char *format, va_list args, Say &&say) {
  int option = g_option.load(std::memory_order_relaxed) & (LOG_PERROR | LOG_CONS | LOG_PID);
  if (!(option & (LOG_PERROR | LOG_CONS))) {
    may_need_time_zone() ? in_libc(fn, Leave::kIfItRead, say) : say();
    return;
  }
  Call call;
  Thread *t = call.thread();
  if (!t) return say();
  int saved = errno;
  constexpr int kConsoleLineEnd = 2;
  int64_t to_console = option & LOG_CONS ? message_bytes(option, format, args) + kConsoleLineEnd : 0;
  errno = saved;  // %m
  LibcCall account(t);
  say();
  int64_t bytes[2];
  if (!account.finish(bytes)) return;
  // With a daemon that takes messages, or without a console, nothing is written there.
  if (bytes[kWritten] < to_console || (option & LOG_PERROR && bytes[kWritten] < 2 * to_console - kConsoleLineEnd)) {
    to_console = 0;
  }
  int64_t n = bytes[kWritten] - to_console;
  if (n > 0) record_transfer(call, Fn::kSyslogged, 2, kHere, static_cast<uint64_t>(n), n);
  Event e;
  e.fn = fn;
  e.ret = bytes[kRead];
  if (e.ret > 0) record_path(call, e, nullptr);
  e.fn = Fn::kLibcWritten;
  e.ret = to_console;
  if (e.ret > 0) record_path(call, e, nullptr);
}

}  // namespace

TAILRACE_HOOK void openlog(const char *ident, int option, int facility) {
  if (ident) g_ident.store(ident, std::memory_order_relaxed);
  g_option.store(option, std::memory_order_relaxed);
  REAL(openlog)(ident, option, facility);
}

// The options stay. The name may be in a library that is unloaded after it has closed the log.
TAILRACE_HOOK void closelog() {
  g_ident.store(nullptr, std::memory_order_relaxed);
  REAL(closelog)();
}

TAILRACE_HOOK void vsyslog(int priority, const char *format, va_list args) {
  log_message(Fn::f_vsyslog, format, args, [&] { REAL(vsyslog)(priority, format, args); });
}
TAILRACE_HOOK void __vsyslog_chk(int priority, int flag, const char *format, va_list args) {
  log_message(Fn::f___vsyslog_chk, format, args, [&] { REAL(__vsyslog_chk)(priority, flag, format, args); });
}
TAILRACE_HOOK void syslog(int priority, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_message(Fn::f_syslog, format, args, [&] { REAL(vsyslog)(priority, format, args); });
  va_end(args);
}
TAILRACE_HOOK void __syslog_chk(int priority, int flag, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_message(Fn::f___syslog_chk, format, args, [&] { REAL(__vsyslog_chk)(priority, flag, format, args); });
  va_end(args);
}
