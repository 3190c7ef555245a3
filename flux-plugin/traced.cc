// traced: starts the initial program of a traced instance with the variables that its brokers must not have (nested.h).
//
//     traced PROGRAM [ARGUMENT...]
//
// Renames TAILRACE_INITIAL_<NAME> to <NAME> in the environment. Rejected: env(1), because a broker prints the command
// line of a failed initial program, and with it all variables.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nested.h"

namespace {

void take_variables() {
  const size_t prefix = strlen(tailrace::flux::kInitialPrefix);
  for (char **entry = environ; *entry;) {
    char *given = *entry;
    char *equals = strchr(given, '=');
    if (!equals || strncmp(given, tailrace::flux::kInitialPrefix, prefix) != 0) {
      ++entry;
      continue;
    }
    *equals = 0;
    setenv(given + prefix, equals + 1, 1);
    unsetenv(given);
    // setenv and unsetenv may move the table.
    entry = environ;
  }
}

// The broker's rule (flux-broker(1), "INITIAL PROGRAM"): a single word that is not an executable file is a command line
// of the user's shell.
bool is_shell_line(const char *word) {
  for (const char *p = word; *p; ++p) {
    if (isspace(static_cast<unsigned char>(*p))) return true;
  }
  struct stat st;
  return stat(word, &st) != 0 || !S_ISREG(st.st_mode) || access(word, X_OK | R_OK) != 0;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: traced PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  take_variables();
  if (argc == 2 && is_shell_line(argv[1])) {
    const char *shell = getenv("SHELL");
    if (!shell || !*shell) shell = "/bin/bash";
    execl(shell, shell, "-c", argv[1], static_cast<char *>(nullptr));
    fprintf(stderr, "%s: %s\n", shell, strerror(errno));
  } else {
    execvp(argv[1], argv + 1);
    fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
  }
  return errno == ENOENT ? 127 : 126;
}
