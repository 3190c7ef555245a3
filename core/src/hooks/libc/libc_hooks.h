// The forms of the hooks of category LIBC: calls that libc answers from files of its own (users, hosts, time zone,
// locale), which it opens and reads without a hook. The event has the call's name and no file; its size is the kernel's
// account of the thread around it (LibcCall), so that the ledger of the process adds up.
//
//   accounts.cc       users, groups, their passwords, login names, netgroups, shells
//   resolver.cc       hosts, networks, services, protocols, name servers, remote users
//   login_records.cc  utmp and wtmp
//   locale.cc         locales, message catalogues, character sets
//   time_zone.cc      whatever reads the time zone
//   machine.cc        processors, load, threads, named semaphores
//   syslog.cc, wordexp.cc
//
// Invariant: an account costs two reads of /proc (5 us), so a call that programs make often and that reads only at its
// first time (localtime, setlocale, sysconf) is measured only then. It leaves an event only if it read, as does the
// step from one entry of a table to the next.
#pragma once

#include "hooks/libc/libc_call.h"

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

// Tables of users, groups, hosts: the next entry, an entry by key, back to the first entry.
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
