// See nested.h.
#include "nested.h"

#include <string.h>
#include <unistd.h>

namespace tailrace::flux {
namespace {

bool is_one_of(string_view word, std::initializer_list<string_view> words) {
  for (string_view one : words) {
    if (word == one) return true;
  }
  return false;
}

// The options of flux-broker(1) and flux-start(1) whose value may be the next word.
bool takes_next(string_view word) {
  return is_one_of(word, {"-S", "-c", "-o", "-s", "--setattr", "--config-path", "--conf", "--broker-opts", "--wrap",
                          "--test-size", "--test-hosts", "--test-exit-timeout", "--test-exit-mode", "--test-start-mode",
                          "--test-rundir", "--test-pmi-clique", "--killer-timeout"});
}

bool stands_alone(string_view word) {
  constexpr string_view kLetters = "Scosvr";  // followed by their values
  bool is_short = word[1] != '-';
  return is_short
             ? kLetters.find(word[1]) != string_view::npos || word == "-X"
             : word.find('=') != string_view::npos ||
                   is_one_of(word, {"--verbose", "--recovery", "--sysconfig", "--noexec", "--test-rundir-cleanup"});
}

// The index of the initial program, after `flux broker` or `flux start` and its options, or -1; `unknown` is an option
// that is in neither list.
int find_program(const flux_cmd_t *cmd, const char *&unknown) {
  int n = flux_cmd_argc(cmd), i = 2;
  while (i < n) {
    string_view word(flux_cmd_arg(cmd, i));
    if (word == "--") return i + 1 < n ? i + 1 : -1;
    if (word.size() < 2 || word[0] != '-') return i;
    if (!takes_next(word) && !stands_alone(word)) {
      unknown = flux_cmd_arg(cmd, i);
      return -1;
    }
    i += takes_next(word) ? 2 : 1;
  }
  return -1;
}

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
  int at = find_program(cmd, unknown);
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
