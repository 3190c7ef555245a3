// Hooks: users, groups and their passwords, login names, netgroups and shells (hooks/libc/libc_hooks.h).
#include <grp.h>
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

LIBC_HOOK(char *, getlogin, (), ())
LIBC_HOOK(int, getlogin_r, (char *name, size_t n), (name, n))
LIBC_HOOK(int, __getlogin_r_chk, (char *name, size_t n, size_t room), (name, n, room))
LIBC_HOOK(char *, cuserid, (char *name), (name))

LIBC_HOOK(int, innetgr, (const char *group, const char *host, const char *user, const char *domain),
          (group, host, user, domain))

NEXT_HOOK(char *, getusershell, () noexcept, ())
START_HOOK(setusershell, noexcept)
