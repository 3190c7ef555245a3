// See session/own_descriptors.h.
#include "session/own_descriptors.h"

#include <errno.h>

#include "base/descriptor_table.h"
#include "base/sys.h"
#include "format/sockets.h"
#include "session/session.h"

namespace tailrace {

std::atomic<uint32_t> g_threads_made;

namespace {

std::atomic<bool> g_swept;
__thread bool t_is_in_own_table, t_looks_here;

bool has_other_threads() { return g_threads_made.load(std::memory_order_relaxed) != 0; }

// Not while a wait tells what it adds to the process's account (session/child_account.h): what the task reads and
// writes would be the child's.
bool call_apart(void (*function)(void *), void *argument) {
  if (t_is_in_own_table || t_looks_here || t_sharers || is_vfork_child()) return false;
  Locked alone(g_wiped.reaping);
  t_is_in_own_table = true;  // of the task, too, which has the caller's thread-locals
  const bool is_called = call_in_own_table(function, argument, g_session.filters.load(std::memory_order_relaxed) != 0);
  t_is_in_own_table = false;
  return is_called;
}

}  // namespace

bool is_in_own_table() { return t_is_in_own_table; }

void note_sweep() {
  // A vfork child has a table of its own.
  if (is_vfork_child() || !has_other_threads() || g_swept.exchange(true, std::memory_order_relaxed)) return;
  ask_for_no_peers();
}

LooksHere::LooksHere() { t_looks_here = true; }
LooksHere::~LooksHere() { t_looks_here = false; }

void with_descriptor(void (*function)(void *), void *argument, const int &status) {
  if (has_other_threads() && call_apart(function, argument)) return;
  function(argument);
  if (status == -EMFILE || status == -EBADF) call_apart(function, argument);
}

bool must_look_apart() {
  const bool is_swept = g_swept.load(std::memory_order_relaxed) && has_other_threads();
  return is_swept && !t_is_in_own_table && !t_looks_here && !is_vfork_child();
}

void look_apart(void (*look)(void *), void *argument) {
  sys::SignalsBlocked signals;
  if (!call_apart(look, argument)) look(argument);
}

}  // namespace tailrace
