// Secrets that only the program's name announces: the value of `-p` is a port for ssh and the password for sshpass.
#pragma once

#include "base/text.h"

namespace tailrace {

struct Span {
  size_t begin, end;
};

// Follows the words of a command line. Fields point into a table of constants.
class SecretOptions {
 public:
  struct Program;

  // The part of the next word that is a secret; empty where it has none. A word may be given in quotes.
  Span take(string_view word);
  // The next word begins another command.
  void begin_command();
  // Whether all of the next word may be a secret.
  bool expects_value() const { return expects_value_; }

 private:
  const Program *program_ = nullptr;
  bool is_ready_ = false;       // its subcommand, if it has one, was seen
  bool expects_value_ = false;  // the word before was an option that takes a secret
};

// Whether a word behind an option is another option, not its value: -v, -j8, -verbose, --sha256, --count=5. A word of
// other characters, or with capitals behind the first, is rather a value that begins with a dash.
bool is_next_option(string_view word);

}  // namespace tailrace
