// Hooks: users, groups and their passwords, login names, mail aliases, netgroups and shells (hooks/libc/libc_hooks.h).
#include <aliases.h>
#include <grp.h>
#include <gshadow.h>
#include <netdb.h>
#include <pwd.h>
#include <shadow.h>
#include <stdlib.h>
#include <unistd.h>

#include "hooks/libc/libc_hooks.h"
#include "linker/real.h"
#include "session/reserve.h"

using namespace tailrace;

extern "C" int __getlogin_r_chk(char *, size_t, size_t);

TABLE_HOOKS(passwd, getpwent)
START_HOOK(setpwent)
KEY_HOOKS(passwd, getpwnam, const char *)
KEY_HOOKS(passwd, getpwuid, uid_t)
LIBC_HOOK(int, getpw, (uid_t uid, char *buf), (uid, buf))

TABLE_HOOKS(group, getgrent)
START_HOOK(setgrent)
KEY_HOOKS(group, getgrnam, const char *)
KEY_HOOKS(group, getgrgid, gid_t)
// Also gives up rights (hooks/rights.cc).
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

TABLE_HOOKS(aliasent, getaliasent, noexcept)
START_HOOK(setaliasent, noexcept)
KEY_HOOKS(aliasent, getaliasbyname, const char *, noexcept)

NEXT_HOOK(int, getnetgrent, (char **host, char **user, char **domain), (host, user, domain))
NEXT_HOOK(int, getnetgrent_r, (char **host, char **user, char **domain, char *buf, size_t n),
          (host, user, domain, buf, n))
LIBC_HOOK(int, setnetgrent, (const char *group), (group))
LIBC_HOOK(int, innetgr, (const char *group, const char *host, const char *user, const char *domain),
          (group, host, user, domain))

NEXT_HOOK(char *, getusershell, () noexcept, ())
START_HOOK(setusershell, noexcept)
