// See nested.h.
#define FLUX_SHELL_PLUGIN_NAME "tailrace"
#include "nested.h"

#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tailrace::flux {
namespace {

bool is_one_of(string_view word, std::initializer_list<string_view> words) {
  for (string_view one : words) {
    if (word == one) return true;
  }
  return false;
}

// Where the initial program begins: behind `flux broker` and its options, or -1. flux-broker(1) has -S ATTR=VAL,
// -c PATH and --conf=VALUE, whose value may be a word of its own, and -v.
int find_program(const flux_cmd_t *cmd) {
  int n = flux_cmd_argc(cmd), i = 2;
  while (i < n) {
    string_view word(flux_cmd_arg(cmd, i));
    if (word == "--") return i + 1 < n ? i + 1 : -1;
    if (word.size() < 2 || word[0] != '-') return i;
    bool takes_next = is_one_of(word, {"-S", "-c", "--setattr", "--config-path", "--conf"});
    bool whole = starts_with(word, "-S") || starts_with(word, "-c") || starts_with(word, "-v") || word == "--verbose" ||
                 word.find('=') != string_view::npos;
    if (!takes_next && !whole) return -1;
    i += takes_next ? 2 : 1;
  }
  return -1;
}

// As the broker decides it (flux-broker(1), "INITIAL PROGRAM"): a single word that is no executable file is a line for
// the user's shell.
bool is_shell_line(flux_shell_t *shell, const flux_cmd_t *cmd, int program) {
  if (flux_cmd_argc(cmd) != program + 1) return false;
  // A batch script is {{tmpdir}}/script, which the shell expands only when it starts the task.
  CString word(flux_shell_mustache_render(shell, flux_cmd_arg(cmd, program)));
  if (!word) return false;
  for (const char *p = word.get(); *p; ++p) {
    if (isspace(static_cast<unsigned char>(*p))) return true;
  }
  struct stat st;
  return stat(word.get(), &st) != 0 || !S_ISREG(st.st_mode) || access(word.get(), X_OK | R_OK) != 0;
}

}  // namespace

bool wrap_initial_program(flux_shell_t *shell, flux_cmd_t *cmd, const json_t *assignments) {
  int at = find_program(cmd);
  if (at < 0) return false;
  if (is_shell_line(shell, cmd, at)) {
    const char *program = flux_cmd_getenv(cmd, "SHELL");
    flux_cmd_argv_insert(cmd, at, "-c");
    flux_cmd_argv_insert(cmd, at, program && *program ? program : "/bin/bash");
  }
  for (size_t i = json_array_size(assignments); i > 0; --i) {
    flux_cmd_argv_insert(cmd, at, json_string_value(json_array_get(assignments, i - 1)));
  }
  return flux_cmd_argv_insert(cmd, at, "env") == 0;
}

}  // namespace tailrace::flux
