// See format/redaction.h. What is found: NAME=VALUE, NAME: VALUE, --NAME VALUE, and the password of a URL (RFC 3986,
// section 3.2.1), also inside a longer text (sh -c, curl -H). One word of NAME is of the tables below, and its last
// word is not a harmless one; words are separated by -, _ or . or by capitals.
#include "format/redaction.h"

namespace tailrace {
namespace {

constexpr string_view kSecretWords[] = {"apikey",    "authorization", "cookie",     "credential", "credentials",
                                        "jwt",       "pass",          "passphrase", "passwd",     "password",
                                        "passwords", "secret",        "sig",        "signature",  "token"};
// Also as the end of a word: PGPASSWORD.
constexpr string_view kSecretEnds[] = {"apikey", "passwd", "password", "secret", "token"};
// Before "key": a key alone is a column's name more often than a secret.
constexpr string_view kKeyWords[] = {"access", "account", "api", "auth", "encryption", "private", "secret", "signing"};
// As the last word: such a name is of something about a secret, not of the secret itself.
constexpr string_view kHarmlessWords[] = {"count",    "dir",  "directory", "env",    "fd",   "file",
                                          "filename", "id",   "len",       "length", "name", "path",
                                          "prompt",   "size", "stdin",     "ttl",    "type", "url"};

// What some services let their tokens begin with (their secret scanners' documentation), before at least kTokenBytes.
constexpr string_view kTokenBegins[] = {"ghp_", "gho_",  "ghs_",  "ghu_",  "ghr_",  "github_pat_", "glpat-",
                                        "hf_",  "xoxa-", "xoxb-", "xoxp-", "xoxs-", "sk-"};
constexpr size_t kTokenBytes = 20;
constexpr string_view kPrivateKey = "PRIVATE KEY-----";  // RFC 7468
// Schemes whose user without a password is a token. Of others it is a name: ssh://git@host, abfss://container@account.
constexpr string_view kTokenSchemes[] = {"http", "https", "ftp", "ftps"};

constexpr string_view kSchemes[] = {"basic", "bearer", "digest", "negotiate", "token"};

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_upper(c) || (c >= 'a' && c <= 'z'); }
bool is_name(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; }

bool equals(string_view word, string_view lower) {
  if (word.size() != lower.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    if (to_lower(word[i]) != lower[i]) return false;
  }
  return true;
}

template <size_t N>
bool is_one_of(string_view word, const string_view (&words)[N]) {
  for (string_view one : words) {
    if (equals(word, one)) return true;
  }
  return false;
}

// Takes the last word off a name. In "apiKey" it is "Key", in "API_KEY" "KEY".
string_view take_last_word(string_view &name) {
  auto separates = [](char c) { return !is_letter(c); };
  size_t end = name.size();
  while (end > 0 && separates(name[end - 1])) --end;
  size_t at = end;
  while (at > 0 && !separates(name[at - 1])) {
    --at;
    if (at > 0 && is_upper(name[at]) && !is_upper(name[at - 1]) && !separates(name[at - 1])) break;
  }
  string_view word = slice(name, at, end - at);
  name = slice(name, 0, at);
  return word;
}

bool ends_in_secret(string_view word) {
  for (string_view end : kSecretEnds) {
    if (word.size() > end.size() && equals(slice(word, word.size() - end.size(), end.size()), end)) return true;
  }
  return false;
}

bool is_secret(string_view name) {
  string_view after;
  for (bool last = true;; last = false) {
    string_view word = take_last_word(name);
    if (word.empty() || (last && is_one_of(word, kHarmlessWords))) return false;
    if (is_one_of(word, kSecretWords) || ends_in_secret(word)) return true;
    if (equals(after, "key") && is_one_of(word, kKeyWords)) return true;
    // Alone it is the shell's working directory.
    if (last && equals(word, "pwd") && !name.empty()) return true;
    after = word;
  }
}

bool ends_value(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\'' || c == '"' || c == '&' || c == ';' || c == ')' || c == '|';
}

// An option without its value.
bool is_option(string_view argument) {
  for (char c : argument) {
    if (!is_name(c)) return false;
  }
  return starts_with(argument, "-");
}

// Looks for the value of a secret's name in a text.
class Value {
 public:
  Value(string_view text, ShellText &shell) : text_(text), shell_(shell) {}

  // The value behind a name that ends at `at`; empty where it has none.
  Span behind(string_view name, size_t at);

 private:
  bool has(size_t i) const { return i < text_.size(); }
  // Of a quote at `i`, with the backslashes that keep it from a shell: "{\"token\": \"X\"}".
  size_t quote_bytes(size_t i) const;
  size_t open_quote(size_t i);
  bool is_next_word(string_view name, size_t at, size_t i) const;
  size_t end_of_quoted(size_t i, bool in_shell) const;
  size_t end_of_word(size_t i) const;
  size_t end_of_header(size_t i) const;

  string_view text_;
  ShellText &shell_;
  char quote_ = 0;  // that the value is in
  bool is_escaped_ = false;
};

size_t Value::quote_bytes(size_t i) const {
  size_t quote = i;
  while (has(quote) && text_[quote] == '\\') ++quote;
  return has(quote) && (text_[quote] == '"' || text_[quote] == '\'') ? quote + 1 - i : 0;
}

size_t Value::open_quote(size_t i) {
  const size_t bytes = quote_bytes(i);
  // An apostrophe before may only seem to have opened one.
  const bool closes = bytes == 1 && shell_.is_open(text_[i]) && (!has(i + 1) || ends_value(text_[i + 1]));
  if (bytes == 0 || closes) return i;
  is_escaped_ = bytes > 1;
  quote_ = text_[i + bytes - 1];
  return i + bytes;
}

// Whether the word at `i` is the value of the option that ends at `at`.
bool Value::is_next_word(string_view name, size_t at, size_t i) const {
  if (name[0] != '-' || !has(at) || !shell_.is_blank(at) || !has(i)) return false;
  size_t end = i;
  while (has(end) && !shell_.is_blank(end) && !shell_.ends_command(end)) ++end;
  return !is_next_option(slice(text_, i, end - i));
}

// In a shell, a word goes on behind a closing quote ("a"b); elsewhere (JSON, a function's arguments) the next value
// follows.
size_t Value::end_of_quoted(size_t i, bool in_shell) const {
  size_t end = i;
  while (has(end) && (text_[end] != quote_ || (is_escaped_ && text_[end - 1] != '\\'))) {
    const bool is_plain = quote_ == '\'' || is_escaped_ || text_[end] == '\'';
    end = is_plain ? end + 1 : shell_.skip_piece(end);
  }
  const size_t behind = end + 1;
  while (is_escaped_ && end > i && has(end) && text_[end - 1] == '\\') --end;
  const bool goes_on = in_shell && !is_escaped_ && has(behind) && !shell_.is_open(text_[behind]) &&
                       (is_name(text_[behind]) || quote_bytes(behind) || text_[behind] == '$' || text_[behind] == '`');
  return goes_on ? end_of_word(behind) : end;
}

size_t Value::end_of_word(size_t i) const {
  while (has(i)) {
    const size_t next = shell_.skip_piece(i);
    if (next == i + 1 && ends_value(text_[i])) break;
    i = next;
  }
  return i;
}

size_t Value::end_of_header(size_t i) const {
  while (has(i) && text_[i] != '\n' && text_[i] != '\'' && text_[i] != '"') ++i;
  return i;
}

Span Value::behind(string_view name, size_t at) {
  size_t i = shell_.skip_blanks(at + quote_bytes(at));
  const char separator = has(i) && (text_[i] == '=' || text_[i] == ':') ? text_[i] : '\0';
  if (!separator && !is_next_word(name, at, i)) return {at, at};
  if (separator) i = shell_.skip_blanks(i + 1);
  // A header's value may have blanks: "Authorization: Bearer ...", "Cookie: a=1; b=2".
  const bool is_header = separator && text_[i - 1] != separator;
  shell_.pass_to(i);
  i = open_quote(i);
  // The whole rest of an argument that begins with the name is its value, but in the query of a URL.
  if (name.data() == text_.data() && separator && text_.find('&') == string_view::npos) {
    bool closed = quote_ && text_.size() > i && text_[text_.size() - 1] == quote_;
    return {i, text_.size() - (closed ? 1 : 0)};
  }
  if (quote_) return {i, end_of_quoted(i, separator != ':')};
  return {i, is_header ? end_of_header(i) : end_of_word(i)};
}

bool is_token_scheme(string_view before) {
  for (string_view scheme : kTokenSchemes) {
    if (before.size() < scheme.size()) continue;
    size_t from = before.size() - scheme.size();
    // Also behind a "+": git+https.
    if (equals(slice(before, from, scheme.size()), scheme) && (from == 0 || !is_letter(before[from - 1]))) return true;
  }
  return false;
}

// The word before the secret of an Authorization header (RFC 9110).
bool is_scheme(string_view word) { return is_one_of(word, kSchemes); }

bool is_private_key(string_view argument) { return argument.find(kPrivateKey) != string_view::npos; }

bool is_token(string_view word) {
  for (string_view begin : kTokenBegins) {
    if (starts_with(word, begin) && word.size() >= begin.size() + kTokenBytes) return true;
  }
  return false;
}

// Longer ones are not looked for, since a text may have many begins of one.
constexpr size_t kUserBytes = 1024;

// The end of the user's part of an address that begins at `at`: its last "@" (curl, browsers; RFC 3986 wants the others
// encoded). npos: it has none.
size_t find_at_sign(string_view text, size_t at) {
  size_t found = string_view::npos;
  const size_t most = at + kUserBytes;
  for (; at < text.size() && at < most; ++at) {
    const char c = text[at];
    const bool ends = is_blank(c) || c == '\n' || c == '"' || c == '\'' || c == '/' || c == '?' || c == '#' || c == '<';
    if (ends) break;
    if (c == '@') found = at;
  }
  return found;
}

// The password of the URL whose "://" begins at `at`; a user without one, too, where he is a token.
Span find_password(string_view text, size_t at) {
  const size_t begin = at + 3, end = find_at_sign(text, begin);
  if (end == string_view::npos) return {at, at};
  const size_t colon = slice(text, begin, end - begin).find(':');
  if (colon != string_view::npos) return {begin + colon + 1, end};
  return {is_token_scheme(slice(text, 0, at)) ? begin : end, end};
}

// Whether a host follows, and not the digest of a container's image (name:tag@sha256:...).
bool is_host(string_view text, size_t at) {
  const string_view rest = slice(text, at, text.size() - at);
  if (rest.empty() || !(is_name(rest[0]) || rest[0] == '[')) return false;
  return !starts_with(rest, "sha256:") && !starts_with(rest, "sha512:");
}

// The password of an address without a scheme, `user:password@host`, whose user is `name` and ends at `at`.
Span find_bare_password(string_view text, string_view name, size_t at) {
  const size_t end = equals(name, "mailto") ? string_view::npos : find_at_sign(text, at);
  if (end == string_view::npos || !is_host(text, end + 1)) return {at, at};
  return {at + 1, end};
}

// What stands before an address: nothing, or what separates it from an option or a name.
bool begins_address(string_view text, size_t at) {
  if (at == 0) return true;
  const char c = text[at - 1];
  return is_blank(c) || ends_value(c) || c == '=' || c == '(' || c == ',' || c == '\\';
}

}  // namespace

Redaction parse_redaction(string_view setting) {
  if (setting.empty() || setting == "secrets") return Redaction::kSecrets;
  if (setting == "paths") return Redaction::kPaths;
  return setting == "none" ? Redaction::kNone : Redaction::kArguments;
}

Span Redactor::find_in_name(string_view text, size_t at, size_t end, ShellText &shell) {
  const string_view name = slice(text, at, end - at);
  if (is_token(name)) return {at, end};
  if (is_secret(name)) {
    const Span value = Value(text, shell).behind(name, end);
    if (value.end > value.begin) return value;
  }
  const bool is_user = end < text.size() && text[end] == ':' && begins_address(text, at);
  return is_user ? find_bare_password(text, name, end) : Span{end, end};
}

void Redactor::write_without_secrets(Writer &out, string_view text, Put put) {
  ShellText shell(text);
  size_t written = 0, i = 0;
  bool begins_word = true, has_words = false;
  const auto separates = [&](size_t at) { return shell.is_blank(at) || shell.ends_command(at); };
  for (size_t at = 0; at < text.size(); ++at) has_words = has_words || separates(at);
  while (i < text.size()) {
    shell.pass_to(i);
    Span found{i, i};
    if (begins_word && !separates(i)) {
      // An argument that is an option or its value may have blanks.
      bool is_word = i == 0 && (options_.expects_value() || text[0] == '-');
      has_words = has_words && !is_word;
      Span in_word = options_.take(is_word ? text : slice(text, i, shell.word_end(i) - i));
      found = {i + in_word.begin, i + in_word.end};
    }
    begins_word = separates(i);
    if (shell.ends_command(i)) options_.begin_command();
    if (found.end > found.begin) {
      // Taken.
    } else if (is_name(text[i])) {
      size_t end = i;
      while (end < text.size() && is_name(text[end])) ++end;
      found = find_in_name(text, i, end, shell);
      i = end;
    } else if (text[i] == ':' && starts_with(slice(text, i, text.size() - i), "://")) {
      found = find_password(text, i);
      i += 3;
    } else {
      i = begins_word ? shell.skip_piece(i) : i + 1;
    }
    if (found.end > found.begin) {
      put(out, slice(text, written, found.begin - written));
      put(out, kRedacted);
      written = i = found.end;
    }
  }
  put(out, slice(text, written, text.size() - written));
  if (has_words) options_.begin_command();
}

// The name of the machine's own program, or the begin of it (python3 is python3.11), stays as it is.
void Redactor::write_hashed(Writer &out, string_view argument, Put put) const {
  if (!hasher_ || !hasher_->is_on()) return put(out, kRedacted);
  if (!first_) return hasher_->write_argument(out, argument, put);
  const auto behind_slash = [](string_view path) {
    const size_t slash = path.rfind('/');
    return slash == string_view::npos ? 0 : slash + 1;
  };
  const size_t name = behind_slash(argument), exe = behind_slash(exe_);
  const string_view own = slice(argument, name, argument.size() - name);
  const bool is_known = NameHasher::is_public(exe_) && starts_with(slice(exe_, exe, exe_.size() - exe), own);
  hasher_->write_path(out, is_known ? slice(argument, 0, name) : argument, false, put);
  if (is_known) put(out, own);
}

// What an argument announces of the next one.
Redactor::Next Redactor::announced_by(string_view argument) const {
  if (is_option(argument)) return is_secret(argument) ? Next::kValue : Next::kAny;
  if (next_ == Next::kHeader && is_scheme(argument)) return Next::kHeader;
  if (next_ == Next::kSeparator && argument == "=") return Next::kValue;
  if (next_ == Next::kSeparator && argument == ":") return Next::kHeader;
  size_t end = 0;
  bool has_lower = false;
  for (; end < argument.size() && is_name(argument[end]); ++end) {
    has_lower = has_lower || (is_letter(argument[end]) && !is_upper(argument[end]));
  }
  const string_view behind = slice(argument, end, argument.size() - end);
  // NAME= with nothing behind it is a variable that is empty.
  if (!has_lower || !is_secret(slice(argument, 0, end))) return Next::kAny;
  if (behind == "=") return Next::kValue;
  if (behind == ":") return Next::kHeader;
  return behind.empty() ? Next::kSeparator : Next::kAny;
}

void Redactor::write(Writer &out, string_view argument, Put put) {
  if (mode_ == Redaction::kPaths) {
    write_hashed(out, argument, put);
    first_ = false;
    return;
  }
  const Next next = mode_ == Redaction::kSecrets && !first_ ? announced_by(argument) : Next::kAny;
  const bool is_value = next_ == Next::kValue || next_ == Next::kHeader;
  bool whole =
      mode_ == Redaction::kArguments ? !first_ : (is_value && !is_next_option(argument)) || is_private_key(argument);
  const bool behind_separator = next_ == Next::kSeparator && argument.size() > 1 && argument[0] == '=';
  next_ = next;
  first_ = false;
  if (whole && mode_ != Redaction::kNone) {
    put(out, kRedacted);
  } else if (mode_ == Redaction::kSecrets && behind_separator) {
    put(out, slice(argument, 0, 1));
    put(out, kRedacted);
  } else if (mode_ == Redaction::kSecrets) {
    write_without_secrets(out, argument, put);
  } else {
    put(out, argument);
  }
}

}  // namespace tailrace
