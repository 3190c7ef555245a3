// Hooks: calls after which a process may no longer reach its journal and its trace, since it becomes another user. The
// segments that it may need are made before (session/reserve.h).
#include <grp.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "linker/real.h"
#include "session/record.h"
#include "session/reserve.h"

using namespace tailrace;

#define RIGHTS_HOOK(symbol, parameters, arguments, uid) \
  TAILRACE_HOOK int symbol parameters noexcept {        \
    make_reserve(uid);                                  \
    Call call;                                          \
    int ret = REAL(symbol) arguments;                   \
    record_plain(call, Fn::f_##symbol, ret);            \
    return ret;                                         \
  }
RIGHTS_HOOK(setuid, (uid_t uid), (uid), uid)
RIGHTS_HOOK(seteuid, (uid_t uid), (uid), uid)
RIGHTS_HOOK(setreuid, (uid_t real, uid_t effective), (real, effective), effective)
RIGHTS_HOOK(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved), effective)
RIGHTS_HOOK(setfsuid, (uid_t uid), (uid), uid)
RIGHTS_HOOK(setgid, (gid_t gid), (gid), kSameUser)
RIGHTS_HOOK(setegid, (gid_t gid), (gid), kSameUser)
RIGHTS_HOOK(setregid, (gid_t real, gid_t effective), (real, effective), kSameUser)
RIGHTS_HOOK(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved), kSameUser)
RIGHTS_HOOK(setfsgid, (gid_t gid), (gid), kSameUser)
RIGHTS_HOOK(setgroups, (size_t n, const gid_t *groups), (n, groups), kSameUser)
