// See session/change_run.h.
#include "session/change_run.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/sys.h"
#include "session/hand_over.h"
#include "session/ledger.h"
#include "session/record.h"
#include "session/segment.h"
#include "session/session.h"

namespace tailrace {
namespace {

constexpr size_t kMostRunBytes = 2500;  // as at the start of a session

// A copy that is never freed, since other threads may be reading the one before. Table lock held.
const char *kept(string_view text) {
  auto *copy = static_cast<char *>(arena_allocate(text.size() + 1));
  if (copy) memcpy(copy, text.data(), text.size());
  return copy;
}

// Sealing and table lock held.
int leave_for(string_view run) {
  Session &g = g_session;
  const char *path = kept(run);
  auto *setting = static_cast<string_view *>(arena_allocate(sizeof(string_view)));
  auto *earlier = static_cast<EarlierJournals *>(arena_allocate(sizeof(EarlierJournals)));
  const char *stem = kept(g.journal_stem);
  if (!path || !setting || !earlier || !stem) return -ENOMEM;
  *earlier = {g.start_realtime_ns, stem, g.earlier_journals};
  *setting = string_view(path, run.size());
  leave_segments();
  g.earlier_journals = earlier;
  g.environment.set_run(setting);
  return 0;
}

}  // namespace

int change_run(string_view run) {
  Session &g = g_session;
  Thread *t = enter();
  if (!t) return -ESRCH;
  if (run.size() > kMostRunBytes) return -ENAMETOOLONG;
  // Programs and their children would still be told of the first run.
  if (g.environment.is_exposed()) return -EBUSY;
  record_process_exit(0);
  sys::SignalsBlocked signals;
  {
    Locked sealing(g_wiped.sealing);
    Locked table(g_wiped.table);
    if (int status = leave_for(run)) return status;
    begin_again();
    begin_ledger_again();
    open_segment(t);
  }
  record_start(t);
  return 0;
}

}  // namespace tailrace
