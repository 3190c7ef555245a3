// Hooks: wordexp. For a command in its words, "$(...)", libc starts a shell without a hook, reads its output and waits
// for it.
//
// Invariants:
// - The shell is traced as any child is (spawn/environment_exposure.h).
// - The pipe's bytes are those of the call (LibcCall).
// - The bytes that the shell and its children moved are no part of this process's account.
//
// Rejected: to expand the words here, a second grammar of the shell. Where another thread has exposed settings of
// another context, the commands run untraced: wrong tags would be worse.
#include <pthread.h>
#include <string.h>
#include <wordexp.h>

#include "hooks/libc/libc_call.h"
#include "hooks/messages.h"
#include "linker/real.h"
#include "session/child_account.h"
#include "spawn/environment_exposure.h"
#include "spawn/injection.h"

using namespace tailrace;

namespace {

void end_exposure_after_shells(void *) { end_exposure(); }

// The shells get `environ`.
int expand_exposed(const char *words, wordexp_t *out, int flags) {
  auto real = [&] { return in_libc(Fn::f_wordexp, Leave::kAlways, [&] { return REAL(wordexp)(words, out, flags); }); };
  if (!expose_settings("/bin/sh")) return real();
  int ret;
  // A cancelled call has no destructors.
  pthread_cleanup_push(end_exposure_after_shells, nullptr);
  ret = real();
  pthread_cleanup_pop(1);
  return ret;
}

int expand_with_commands(const char *words, wordexp_t *out, int flags) {
  // Open file descriptions are shared from here on.
  g_fork_generation.fetch_add(1, std::memory_order_relaxed);
  AddedInCall children;
  int ret = expand_exposed(words, out, flags);
  children.count();
  return ret;
}

bool has_commands(const char *words, int flags) {
  return !(flags & WRDE_NOCMD) && (strchr(words, '`') || strstr(words, "$("));
}

int expand(const char *words, wordexp_t *out, int flags) {
  if (is_injecting() && has_commands(words, flags)) return expand_with_commands(words, out, flags);
  return in_libc(Fn::f_wordexp, Leave::kAlways, [&] { return REAL(wordexp)(words, out, flags); });
}

}  // namespace

TAILRACE_HOOK int wordexp(const char *words, wordexp_t *out, int flags) {
  // "${name?message}"
  if (!strchr(words, '?') || !enter()) return expand(words, out, flags);
  MessageCall complaint(Fn::kExpanding, stderr);
  return expand(words, out, flags);
}
