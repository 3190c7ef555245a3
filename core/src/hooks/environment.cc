// Hooks: changes of the environment by which a manager tells a worker that runs one task after another what the next
// one is (format/managers.def). They are not recorded.
#include <stdlib.h>

#include "format/managers.h"
#include "linker/real.h"
#include "session/root_context.h"
#include "session/session.h"

using namespace tailrace;

namespace {

void variable_changed(string_view name) {
  // A vfork child runs in its parent's memory.
  if (is_workers_variable(name) && !is_vfork_child() && enter()) renew_root_context();
}

}  // namespace

TAILRACE_HOOK int setenv(const char *name, const char *value, int replace) noexcept {
  const int ret = REAL(setenv)(name, value, replace);
  if (ret == 0) variable_changed(name);
  return ret;
}

TAILRACE_HOOK int putenv(char *entry) noexcept {
  const int ret = REAL(putenv)(entry);
  if (ret == 0) {
    const string_view all(entry);
    const size_t equals = all.find('=');
    variable_changed(equals == string_view::npos ? all : slice(all, 0, equals));
  }
  return ret;
}

TAILRACE_HOOK int unsetenv(const char *name) noexcept {
  const int ret = REAL(unsetenv)(name);
  if (ret == 0) variable_changed(name);
  return ret;
}
