// Hooks: the records of logins, utmp and wtmp (hooks/libc/libc_hooks.h).
#include <utmp.h>
#include <utmpx.h>

#include "hooks/libc/libc_hooks.h"
#include "linker/real.h"

using namespace tailrace;

#define LOGIN_HOOKS(row, entry, by_id, by_line)                        \
  NEXT_HOOK(struct row *, entry, (), ())                               \
  LIBC_HOOK(struct row *, by_id, (const struct row *wanted), (wanted)) \
  LIBC_HOOK(struct row *, by_line, (const struct row *wanted), (wanted))
LOGIN_HOOKS(utmpx, getutxent, getutxid, getutxline)
NEXT_HOOK(struct utmp *, getutent, () noexcept, ())
LIBC_HOOK(struct utmp *, getutid, (const struct utmp *wanted) noexcept, (wanted))
LIBC_HOOK(struct utmp *, getutline, (const struct utmp *wanted) noexcept, (wanted))
NEXT_HOOK(int, getutent_r, (struct utmp * into, struct utmp **out) noexcept, (into, out))
LIBC_HOOK(int, getutid_r, (const struct utmp *wanted, struct utmp *into, struct utmp **out) noexcept,
          (wanted, into, out))
LIBC_HOOK(int, getutline_r, (const struct utmp *wanted, struct utmp *into, struct utmp **out) noexcept,
          (wanted, into, out))

// The call searches for an entry before it writes one.
#define ENTER_HOOK(type, symbol, parameters, arguments)                                                 \
  TAILRACE_HOOK type symbol parameters {                                                                \
    return in_libc(Fn::f_##symbol, Leave::kBothWays, [&]() -> type { return REAL(symbol) arguments; }); \
  }
ENTER_HOOK(struct utmp *, pututline, (const struct utmp *entry) noexcept, (entry))
ENTER_HOOK(struct utmpx *, pututxline, (const struct utmpx *entry), (entry))
ENTER_HOOK(void, updwtmp, (const char *file, const struct utmp *entry) noexcept, (file, entry))
ENTER_HOOK(void, updwtmpx, (const char *file, const struct utmpx *entry), (file, entry))
ENTER_HOOK(void, logwtmp, (const char *line, const char *name, const char *host) noexcept, (line, name, host))
ENTER_HOOK(void, login, (const struct utmp *entry) noexcept, (entry))
ENTER_HOOK(int, logout, (const char *line) noexcept, (line))
