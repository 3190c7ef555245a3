// Secrets in command lines: values that a program was given in its arguments and that no trace should keep. By names of
// values, options of known programs, and the form of some tokens, so a password that nothing announces stays;
// TAILRACE_REDACT=arguments leaves the program's name only.
#pragma once

#include "base/text.h"
#include "format/secret_options.h"

namespace tailrace {

enum class Redaction { kSecrets, kArguments, kNone };

// By the value of TAILRACE_REDACT. An unknown one redacts most.
Redaction parse_redaction(string_view setting);

constexpr string_view kRedacted = "[redacted]";

// Writes the arguments of one command line, in their order.
class Redactor {
 public:
  using Put = void (*)(Writer &out, string_view part);

  explicit Redactor(Redaction mode) : mode_(mode) {}
  // Passes the argument's parts to `put`, with kRedacted in the place of secrets.
  void write(Writer &out, string_view argument, Put put);

 private:
  void write_without_secrets(Writer &out, string_view text, Put put);

  Redaction mode_;
  SecretOptions options_;
  bool first_ = true;
  bool expects_secret_ = false;  // the argument before was an option that takes one
};

}  // namespace tailrace
