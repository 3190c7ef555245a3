// Secrets in command lines: values that a program was given in its arguments and that no trace should keep. By names of
// values, options of known programs, and the form of some tokens, so a password that nothing announces stays;
// TAILRACE_REDACT=arguments leaves the program's name only; under =paths all parts are hashed (format/name_hashing.h).
#pragma once

#include "base/text.h"
#include "format/name_hashing.h"
#include "format/secret_options.h"
#include "format/shell_words.h"

namespace tailrace {

enum class Redaction { kSecrets, kArguments, kPaths, kNone };

// By the value of TAILRACE_REDACT. An unknown one redacts most.
Redaction parse_redaction(string_view setting);

constexpr string_view kRedacted = "[redacted]";

// Writes the arguments of one command line, in their order.
class Redactor {
 public:
  using Put = void (*)(Writer &out, string_view part);

  // Under kPaths: `hasher`, without which all is kRedacted, and the file of the program, whose name argv[0] may be.
  explicit Redactor(Redaction mode, const NameHasher *hasher = nullptr, string_view exe = {})
      : mode_(mode), hasher_(hasher), exe_(exe) {}
  // Passes the argument's parts to `put`, with kRedacted in the place of secrets.
  void write(Writer &out, string_view argument, Put put);

 private:
  // Of the argument that follows: anything, what separates a name from its value, the value, or all of a header.
  enum class Next { kAny, kSeparator, kValue, kHeader };

  void write_without_secrets(Writer &out, string_view text, Put put);
  static Span find_in_name(string_view text, size_t at, size_t end, ShellText &shell);
  Next announced_by(string_view argument) const;
  void write_hashed(Writer &out, string_view argument, Put put) const;

  Redaction mode_;
  const NameHasher *hasher_;
  string_view exe_;
  SecretOptions options_;
  bool first_ = true;
  Next next_ = Next::kAny;
};

}  // namespace tailrace
