// Hooks: calls that libc answers from files of its own (users, hosts, time zone, locale), which it opens and reads by
// ways that no hook sees. The event has the call's name and no file; its size is the kernel's account of the thread
// around it (LibcCall), so that the ledger of the process closes.
//
// What holds: the account costs two readings of /proc (5 us), so a call that programs make often and that reads only at
// its first time (localtime, setlocale, sysconf) is measured only then. It leaves an event only if it read, as does
// the step from one entry of a table to the next.
#include <aliases.h>
#include <fstab.h>
#include <grp.h>
#include <gshadow.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <nl_types.h>
#include <nss.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <shadow.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <ttyent.h>
#include <unistd.h>
#include <utmp.h>
#include <utmpx.h>
#include <wchar.h>

#include "hooks/libc/libc_call.h"
#include "linker/real.h"
#include "session/reserve.h"

using namespace tailrace;

extern "C" {
int __getlogin_r_chk(char *, size_t, size_t);
long __sysconf(int);
struct tm *__gmtime_r(const time_t *, struct tm *);
locale_t __newlocale(int, const char *, locale_t);
size_t __strftime_l(char *, size_t, const char *, const struct tm *, locale_t);
size_t __wcsftime_l(wchar_t *, size_t, const wchar_t *, const struct tm *, locale_t);
// The header's names are macros for either.
int plain_res_query(const char *, int, int, unsigned char *, int) __asm__("res_query");
int plain_res_search(const char *, int, int, unsigned char *, int) __asm__("res_search");
int __res_query(const char *, int, int, unsigned char *, int);
int __res_search(const char *, int, int, unsigned char *, int);
int __res_init(void);
int __res_ninit(void *);
}

namespace tailrace {

void record_libc_call(const Call &call, Fn fn, LibcCall &account, int64_t ret, Leave leave) {
  int64_t bytes[2];
  Event e;
  e.fn = fn;
  e.count = static_cast<uint64_t>(ret);
  bool known = account.finish(bytes);
  bool reads = function(fn).direction == Direction::R;
  if (known) e.ret = bytes[reads ? kRead : kWritten];
  e.file2 = !known;
  if (leave != Leave::kIfItRead || e.ret > 0) record_path(call, e, nullptr);
  if (!known || leave != Leave::kBothWays) return;
  e.fn = reads ? Fn::kLibcWritten : Fn::kLibcRead;
  e.ret = bytes[reads ? kWritten : kRead];
  if (e.ret > 0) record_path(call, e, nullptr);
}

}  // namespace tailrace

#define LIBC_HOOK(type, symbol, parameters, arguments)                                                \
  TAILRACE_HOOK type symbol parameters {                                                              \
    return in_libc(Fn::f_##symbol, Leave::kAlways, [&]() -> type { return REAL(symbol) arguments; }); \
  }
// Measured only if `condition`.
#define RARE_HOOK(type, symbol, parameters, arguments, condition)                                       \
  TAILRACE_HOOK type symbol parameters {                                                                \
    if (!(condition)) return REAL(symbol) arguments;                                                    \
    return in_libc(Fn::f_##symbol, Leave::kIfItRead, [&]() -> type { return REAL(symbol) arguments; }); \
  }

// Tables of users, groups, hosts: by entry, by key, from the beginning.
#define NEXT_HOOK(type, symbol, parameters, arguments) RARE_HOOK(type, symbol, parameters, arguments, true)
#define TABLE_HOOKS(row, symbol, ...)                                                                \
  NEXT_HOOK(struct row *, symbol, () __VA_ARGS__, ())                                                \
  NEXT_HOOK(int, symbol##_r, (struct row * into, char *buf, size_t n, struct row **out) __VA_ARGS__, \
            (into, buf, n, out))
#define START_HOOK(symbol, ...) LIBC_HOOK(void, symbol, () __VA_ARGS__, ())
#define STAY_HOOK(symbol, ...) LIBC_HOOK(void, symbol, (int stay)__VA_ARGS__, (stay))
#define KEY_HOOKS(row, symbol, type, ...)                                                                      \
  LIBC_HOOK(struct row *, symbol, (type key)__VA_ARGS__, (key))                                                \
  LIBC_HOOK(int, symbol##_r, (type key, struct row * into, char *buf, size_t n, struct row **out) __VA_ARGS__, \
            (key, into, buf, n, out))

TABLE_HOOKS(passwd, getpwent)
START_HOOK(setpwent)
KEY_HOOKS(passwd, getpwnam, const char *)
KEY_HOOKS(passwd, getpwuid, uid_t)
LIBC_HOOK(int, getpw, (uid_t uid, char *buf), (uid, buf))

TABLE_HOOKS(group, getgrent)
START_HOOK(setgrent)
KEY_HOOKS(group, getgrnam, const char *)
KEY_HOOKS(group, getgrgid, gid_t)
// Gives rights up too (hooks/rights.cc).
TAILRACE_HOOK int initgroups(const char *user, gid_t group) {
  make_reserve();
  return in_libc(Fn::f_initgroups, Leave::kAlways, [&] { return REAL(initgroups)(user, group); });
}
LIBC_HOOK(int, getgrouplist, (const char *user, gid_t group, gid_t *groups, int *n), (user, group, groups, n))

TABLE_HOOKS(spwd, getspent)
START_HOOK(setspent)
KEY_HOOKS(spwd, getspnam, const char *)
TABLE_HOOKS(sgrp, getsgent)
START_HOOK(setsgent)
KEY_HOOKS(sgrp, getsgnam, const char *)

LIBC_HOOK(char *, getlogin, (), ())
LIBC_HOOK(int, getlogin_r, (char *name, size_t n), (name, n))
LIBC_HOOK(int, __getlogin_r_chk, (char *name, size_t n, size_t room), (name, n, room))
LIBC_HOOK(char *, cuserid, (char *name), (name))

LIBC_HOOK(int, getaddrinfo,
          (const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out),
          (node, service, hints, out))
LIBC_HOOK(int, getnameinfo,
          (const struct sockaddr *address, socklen_t bytes, char *host, socklen_t host_bytes, char *service,
           socklen_t service_bytes, int flags),
          (address, bytes, host, host_bytes, service, service_bytes, flags))

// Hosts and networks give a code of their own beside the result.
#define RESULT_WITH_ERROR struct hostent *into, char *buf, size_t n, struct hostent **out, int *error
LIBC_HOOK(struct hostent *, gethostbyname, (const char *name), (name))
LIBC_HOOK(struct hostent *, gethostbyname2, (const char *name, int family), (name, family))
LIBC_HOOK(struct hostent *, gethostbyaddr, (const void *address, socklen_t bytes, int type), (address, bytes, type))
NEXT_HOOK(struct hostent *, gethostent, (), ())
LIBC_HOOK(int, gethostbyname_r, (const char *name, RESULT_WITH_ERROR), (name, into, buf, n, out, error))
LIBC_HOOK(int, gethostbyname2_r, (const char *name, int family, RESULT_WITH_ERROR),
          (name, family, into, buf, n, out, error))
LIBC_HOOK(int, gethostbyaddr_r, (const void *address, socklen_t bytes, int type, RESULT_WITH_ERROR),
          (address, bytes, type, into, buf, n, out, error))
NEXT_HOOK(int, gethostent_r, (RESULT_WITH_ERROR), (into, buf, n, out, error))
STAY_HOOK(sethostent)
#undef RESULT_WITH_ERROR
#define RESULT_WITH_ERROR struct netent *into, char *buf, size_t n, struct netent **out, int *error
LIBC_HOOK(struct netent *, getnetbyname, (const char *name), (name))
LIBC_HOOK(struct netent *, getnetbyaddr, (uint32_t net, int type), (net, type))
NEXT_HOOK(struct netent *, getnetent, (), ())
LIBC_HOOK(int, getnetbyname_r, (const char *name, RESULT_WITH_ERROR), (name, into, buf, n, out, error))
LIBC_HOOK(int, getnetbyaddr_r, (uint32_t net, int type, RESULT_WITH_ERROR), (net, type, into, buf, n, out, error))
NEXT_HOOK(int, getnetent_r, (RESULT_WITH_ERROR), (into, buf, n, out, error))
STAY_HOOK(setnetent)
#undef RESULT_WITH_ERROR

TABLE_HOOKS(servent, getservent)
STAY_HOOK(setservent)
LIBC_HOOK(struct servent *, getservbyname, (const char *name, const char *protocol), (name, protocol))
LIBC_HOOK(struct servent *, getservbyport, (int port, const char *protocol), (port, protocol))
LIBC_HOOK(int, getservbyname_r,
          (const char *name, const char *protocol, struct servent *into, char *buf, size_t n, struct servent **out),
          (name, protocol, into, buf, n, out))
LIBC_HOOK(int, getservbyport_r,
          (int port, const char *protocol, struct servent *into, char *buf, size_t n, struct servent **out),
          (port, protocol, into, buf, n, out))

TABLE_HOOKS(protoent, getprotoent)
STAY_HOOK(setprotoent)
KEY_HOOKS(protoent, getprotobyname, const char *)
KEY_HOOKS(protoent, getprotobynumber, int)

TABLE_HOOKS(rpcent, getrpcent, noexcept)
STAY_HOOK(setrpcent, noexcept)
KEY_HOOKS(rpcent, getrpcbyname, const char *, noexcept)
KEY_HOOKS(rpcent, getrpcbynumber, int, noexcept)

TABLE_HOOKS(aliasent, getaliasent, noexcept)
START_HOOK(setaliasent, noexcept)
KEY_HOOKS(aliasent, getaliasbyname, const char *, noexcept)

NEXT_HOOK(int, getnetgrent, (char **host, char **user, char **domain), (host, user, domain))
NEXT_HOOK(int, getnetgrent_r, (char **host, char **user, char **domain, char *buf, size_t n),
          (host, user, domain, buf, n))
LIBC_HOOK(int, setnetgrent, (const char *group), (group))
LIBC_HOOK(int, innetgr, (const char *group, const char *host, const char *user, const char *domain),
          (group, host, user, domain))
LIBC_HOOK(int, ether_ntohost, (char *name, const struct ether_addr *address) noexcept, (name, address))
LIBC_HOOK(int, ether_hostton, (const char *name, struct ether_addr *address) noexcept, (name, address))

LIBC_HOOK(int, __nss_configure_lookup, (const char *table, const char *services) noexcept, (table, services))

// Name servers; the first question reads how to reach them.
#define QUESTION_HOOK(symbol)                                                                            \
  TAILRACE_HOOK int symbol(const char *name, int a, int b, unsigned char *answer, int n) {               \
    return in_libc(Fn::f_##symbol, Leave::kAlways, [&] { return REAL(symbol)(name, a, b, answer, n); }); \
  }
QUESTION_HOOK(res_query)
QUESTION_HOOK(res_search)
QUESTION_HOOK(__res_query)
QUESTION_HOOK(__res_search)
#define DOMAIN_HOOK(symbol)                                                                                  \
  RARE_HOOK(int, symbol, (const char *name, const char *domain, int a, int b, unsigned char *answer, int n), \
            (name, domain, a, b, answer, n), true)
DOMAIN_HOOK(res_querydomain)
DOMAIN_HOOK(__res_querydomain)
#define SEND_HOOK(symbol)                                                                      \
  RARE_HOOK(int, symbol, (const unsigned char *query, int n, unsigned char *answer, int room), \
            (query, n, answer, room), true)
SEND_HOOK(res_send)
SEND_HOOK(__res_send)
#define MAKE_HOOK(symbol)                                                                                           \
  RARE_HOOK(int, symbol,                                                                                            \
            (int op, const char *name, int a, int b, const unsigned char *data, int bytes, const unsigned char *no, \
             unsigned char *out, int room),                                                                         \
            (op, name, a, b, data, bytes, no, out, room), true)
MAKE_HOOK(res_mkquery)
MAKE_HOOK(__res_mkquery)
LIBC_HOOK(int, __res_init, () noexcept, ())
LIBC_HOOK(int, __res_ninit, (void *state), (state))

NEXT_HOOK(char *, getusershell, () noexcept, ())
START_HOOK(setusershell, noexcept)
NEXT_HOOK(struct ttyent *, getttyent, () noexcept, ())
LIBC_HOOK(struct ttyent *, getttynam, (const char *line) noexcept, (line))
LIBC_HOOK(int, setttyent, () noexcept, ())
NEXT_HOOK(struct fstab *, getfsent, () noexcept, ())
LIBC_HOOK(struct fstab *, getfsfile, (const char *point) noexcept, (point))
LIBC_HOOK(struct fstab *, getfsspec, (const char *device) noexcept, (device))
LIBC_HOOK(int, setfsent, () noexcept, ())

// Who is logged in.
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

// An entry is looked for before it is written.
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

// Who may come from where, and passwords for there.
LIBC_HOOK(int, ruserok, (const char *host, int root, const char *there, const char *here), (host, root, there, here))
LIBC_HOOK(int, ruserok_af, (const char *host, int root, const char *there, const char *here, sa_family_t family),
          (host, root, there, here, family))
LIBC_HOOK(int, iruserok, (uint32_t host, int root, const char *there, const char *here), (host, root, there, here))
LIBC_HOOK(int, iruserok_af, (const void *host, int root, const char *there, const char *here, sa_family_t family),
          (host, root, there, here, family))
LIBC_HOOK(int, ruserpass, (const char *host, const char **name, const char **password), (host, name, password))

// The locale. A file of aliases is read at the first name that has none of its own; the C locale has no files. What is
// in catalogues of messages is mapped.
static FirstTimes g_locales(2), g_catalogues(2);
static bool has_files(const char *name) { return name && !(name[0] == 'C' && !name[1]); }
RARE_HOOK(char *, setlocale, (int category, const char *name) noexcept, (category, name),
          has_files(name) && g_locales.take())
RARE_HOOK(locale_t, newlocale, (int mask, const char *name, locale_t base) noexcept, (mask, name, base),
          has_files(name) && g_locales.take())
RARE_HOOK(locale_t, __newlocale, (int mask, const char *name, locale_t base), (mask, name, base),
          has_files(name) && g_locales.take())
#define MESSAGE_HOOK(symbol, parameters, arguments) \
  RARE_HOOK(char *, symbol, parameters noexcept, arguments, g_catalogues.take())
MESSAGE_HOOK(gettext, (const char *text), (text))
MESSAGE_HOOK(dgettext, (const char *domain, const char *text), (domain, text))
MESSAGE_HOOK(dcgettext, (const char *domain, const char *text, int category), (domain, text, category))
MESSAGE_HOOK(ngettext, (const char *one, const char *many, unsigned long n), (one, many, n))
MESSAGE_HOOK(dngettext, (const char *domain, const char *one, const char *many, unsigned long n),
             (domain, one, many, n))
MESSAGE_HOOK(dcngettext, (const char *domain, const char *one, const char *many, unsigned long n, int category),
             (domain, one, many, n, category))
RARE_HOOK(nl_catd, catopen, (const char *name, int flag), (name, flag), true)
RARE_HOOK(iconv_t, iconv_open, (const char *to, const char *from), (to, from), true)

// The time zone: read by whichever comes first, and again when a program has changed TZ and says so.
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
LIBC_HOOK(struct tm *, getdate, (const char *text), (text))
LIBC_HOOK(int, getdate_r, (const char *text, struct tm *out), (text, out))

// The machine and the process, out of /sys and /proc.
#ifndef TAILRACE_SANITIZED  // whose runtimes call these before they, or a new thread, can run instrumented code
static bool is_in_a_file(int name) {
  return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF || name == _SC_NGROUPS_MAX ||
         name == _SC_SIGQUEUE_MAX;
}
RARE_HOOK(long, sysconf, (int name) noexcept, (name), is_in_a_file(name))
RARE_HOOK(long, __sysconf, (int name), (name), is_in_a_file(name))
RARE_HOOK(int, pthread_getattr_np, (pthread_t thread, pthread_attr_t *out) noexcept, (thread, out), true)
#endif
RARE_HOOK(int, get_nprocs, () noexcept, (), true)
RARE_HOOK(int, get_nprocs_conf, () noexcept, (), true)
RARE_HOOK(int, getloadavg, (double *loads, int n) noexcept, (loads, n), true)
RARE_HOOK(long, gethostid, (), (), true)
LIBC_HOOK(int, sethostid, (long id), (id))
RARE_HOOK(int, pthread_getname_np, (pthread_t thread, char *name, size_t n) noexcept, (thread, name, n), true)
RARE_HOOK(int, pthread_setname_np, (pthread_t thread, const char *name) noexcept, (thread, name), true)

// A new semaphore is written to /dev/shm, and then mapped.
TAILRACE_HOOK sem_t *sem_open(const char *name, int flags, ...) noexcept {
  va_list args;
  va_start(args, flags);
  auto mode = va_arg(args, mode_t);
  auto value = va_arg(args, unsigned);
  va_end(args);
  return in_libc(Fn::f_sem_open, Leave::kAlways, [&] { return REAL(sem_open)(name, flags, mode, value); });
}
