// Hooks: calls that may read the time zone (hooks/libc/libc_hooks.h).
#include "hooks/libc/time_zone.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "hooks/libc/libc_hooks.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
struct tm *__gmtime_r(const time_t *, struct tm *);
size_t __strftime_l(char *, size_t, const char *, const struct tm *, locale_t);
size_t __wcsftime_l(wchar_t *, size_t, const wchar_t *, const struct tm *, locale_t);
}

// Read by the first of these calls, and by tzset again when the program has changed TZ.
FirstTimes tailrace::g_time_zone(1);
static FirstTimes g_formats(8);
bool tailrace::may_need_time_zone() { return !g_time_zone.are_over() && g_formats.take(); }
static bool zone_changed() {
  static std::atomic<uint64_t> g_read;
  const char *zone = getenv("TZ");
  uint64_t now = zone ? fnv64(zone, strlen(zone)) : 1;
  return g_read.exchange(now, std::memory_order_relaxed) != now;
}
RARE_HOOK(void, tzset, () noexcept, (), zone_changed() | g_time_zone.take())
RARE_HOOK(struct tm *, localtime, (const time_t *at) noexcept, (at), g_time_zone.take())
RARE_HOOK(struct tm *, localtime_r, (const time_t *at, struct tm *out) noexcept, (at, out), g_time_zone.take())
RARE_HOOK(time_t, mktime, (struct tm * at) noexcept, (at), g_time_zone.take())
RARE_HOOK(char *, ctime, (const time_t *at) noexcept, (at), g_time_zone.take())
RARE_HOOK(char *, ctime_r, (const time_t *at, char *buf) noexcept, (at, buf), g_time_zone.take())
RARE_HOOK(time_t, timelocal, (struct tm * at) noexcept, (at), g_time_zone.take())
RARE_HOOK(time_t, timegm, (struct tm * at) noexcept, (at), g_time_zone.take())
RARE_HOOK(struct tm *, gmtime, (const time_t *at) noexcept, (at), g_time_zone.take())
RARE_HOOK(struct tm *, gmtime_r, (const time_t *at, struct tm *out) noexcept, (at, out), g_time_zone.take())
RARE_HOOK(struct tm *, __gmtime_r, (const time_t *at, struct tm *out), (at, out), g_time_zone.take())
RARE_HOOK(char *, strptime, (const char *text, const char *format, struct tm *out) noexcept, (text, format, out),
          may_need_time_zone())
RARE_HOOK(char *, strptime_l, (const char *text, const char *format, struct tm *out, locale_t locale) noexcept,
          (text, format, out, locale), may_need_time_zone())
#define FORMAT_TIME_HOOKS(symbol, symbol_l, alias_l, char_type)                                                  \
  RARE_HOOK(size_t, symbol, (char_type * buf, size_t n, const char_type *format, const struct tm *at) noexcept,  \
            (buf, n, format, at), may_need_time_zone())                                                          \
  RARE_HOOK(size_t, symbol_l,                                                                                    \
            (char_type * buf, size_t n, const char_type *format, const struct tm *at, locale_t locale) noexcept, \
            (buf, n, format, at, locale), may_need_time_zone())                                                  \
  RARE_HOOK(size_t, alias_l,                                                                                     \
            (char_type * buf, size_t n, const char_type *format, const struct tm *at, locale_t locale),          \
            (buf, n, format, at, locale), may_need_time_zone())
FORMAT_TIME_HOOKS(strftime, strftime_l, __strftime_l, char)
FORMAT_TIME_HOOKS(wcsftime, wcsftime_l, __wcsftime_l, wchar_t)
