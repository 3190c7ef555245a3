// See nested.h.
#include "nested.h"

#include <string.h>
#include <unistd.h>

#include "request.h"

namespace tailrace::flux {
namespace {

// The broker's rule: a single word that is one of the system's shells, with or without its folder.
bool is_interactive_shell(const char *word) {
  bool found = false;
  while (const char *shell = getusershell()) {
    const char *slash = strrchr(shell, '/');
    const char *base = slash ? slash + 1 : shell;
    found = found || strcmp(word, shell) == 0 || strcmp(word, base) == 0;
  }
  endusershell();
  return found;
}

}  // namespace

bool wrap_initial_program(flux_cmd_t *cmd, const char *starter, const json_t *assignments, const char *&unknown) {
  Json words(json_array());
  for (int i = 0; i < flux_cmd_argc(cmd); ++i) {
    json_t *word = json_string(flux_cmd_arg(cmd, i));
    json_array_append_new(words.get(), word ? word : json_string("?"));  // not UTF-8
  }
  int unknown_at = -1;
  int at = find_initial_program(words.get(), unknown_at);
  if (unknown_at >= 0) unknown = flux_cmd_arg(cmd, unknown_at);
  if (at < 0) return false;
  bool alone = at + 1 == flux_cmd_argc(cmd);
  if (string_view(flux_cmd_arg(cmd, at)) == "flux" || (alone && is_interactive_shell(flux_cmd_arg(cmd, at)))) {
    return false;
  }
  for (size_t i = 0; i < json_array_size(assignments); ++i) {
    const char *entry = json_string_value(json_array_get(assignments, i));
    const char *equals = strchr(entry, '=');
    char name[128];
    Writer w(name, sizeof name);
    w << kInitialPrefix << string_view(entry, static_cast<size_t>(equals - entry));
    flux_cmd_setenvf(cmd, 1, w.c_str(), "%s", equals + 1);
  }
  return flux_cmd_argv_insert(cmd, at, starter) == 0;
}

}  // namespace tailrace::flux
