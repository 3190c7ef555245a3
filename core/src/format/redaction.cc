// See format/redaction.h. What is found: NAME=VALUE, NAME: VALUE, --NAME VALUE, and the password of a URL (RFC 3986,
// section 3.2.1), also inside a longer text (sh -c, curl -H). One word of NAME is of the tables below, and its last word
// is not a harmless one; words are separated by -, _ or . or by capitals.
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

bool ends_command(char c) { return c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')'; }

// An option without its value.
bool is_option(string_view argument) {
  for (char c : argument) {
    if (!is_name(c)) return false;
  }
  return starts_with(argument, "-");
}

// The word that begins at `at`: up to a blank or the end of the command, or to the closing quote.
string_view word_at(string_view text, size_t at) {
  size_t end = at;
  if (text[at] == '"' || text[at] == '\'') {
    end = text.find(text[at], at + 1);
    end = end == string_view::npos ? text.size() : end + 1;
  } else {
    while (end < text.size() && !is_blank(text[end]) && !ends_command(text[end])) ++end;
  }
  return slice(text, at, end - at);
}

// The value behind a secret's name that ends at `at`; empty where there is none.
Span find_value(string_view text, string_view name, size_t at) {
  auto has = [&](size_t i) { return i < text.size(); };
  auto skip_blanks = [&](size_t i) {
    while (has(i) && is_blank(text[i])) ++i;
    return i;
  };
  auto skip_quote = [&](size_t i) { return has(i) && (text[i] == '"' || text[i] == '\'') ? i + 1 : i; };
  char quote = 0;
  auto skip_opening_quote = [&](size_t i) {
    size_t behind = skip_quote(i);
    quote = behind > i ? text[i] : '\0';
    return behind;
  };
  size_t i = skip_blanks(skip_quote(at));
  bool separated = has(i) && (text[i] == '=' || text[i] == ':');
  if (separated) {
    i = skip_opening_quote(skip_blanks(i + 1));
  } else if (name[0] == '-' && has(at) && is_blank(text[at]) && has(i) && !is_next_option(word_at(text, i))) {
    i = skip_opening_quote(i);
  } else {
    return {at, at};
  }
  // A header's value may have blanks: "Authorization: Bearer ...", "Cookie: a=1; b=2".
  bool is_header = separated && text[i - 1] != '=' && is_blank(text[i - 1]);
  // The whole rest of an argument that begins with the name is its value, but in the query of a URL.
  if (name.data() == text.data() && separated && text.find('&') == string_view::npos) {
    bool closed = quote && text.size() > i && text[text.size() - 1] == quote;
    return {i, text.size() - (closed ? 1 : 0)};
  }
  size_t end = i;
  if (quote) {
    while (has(end) && text[end] != quote) end += text[end] == '\\' && has(end + 1) ? 2 : 1;
    return {i, end};
  }
  while (has(end) &&
         (is_header ? text[end] != '\n' && text[end] != '\'' && text[end] != '"' : !ends_value(text[end]))) {
    ++end;
  }
  return {i, end};
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

bool is_private_key(string_view argument) { return argument.find(kPrivateKey) != string_view::npos; }

bool is_token(string_view word) {
  for (string_view begin : kTokenBegins) {
    if (starts_with(word, begin) && word.size() >= begin.size() + kTokenBytes) return true;
  }
  return false;
}

// The password of the URL whose "://" begins at `at`; a user without one, too, where he is a token.
Span find_password(string_view text, size_t at) {
  size_t begin = at + 3, i = begin;
  bool has_password = false;
  for (; i < text.size() && text[i] != '/' && text[i] != '?' && text[i] != '#' && !ends_value(text[i]); ++i) {
    if (text[i] == ':' && !has_password) {
      has_password = true;
      begin = i + 1;
    }
    if (text[i] != '@') continue;
    return {has_password || is_token_scheme(slice(text, 0, at)) ? begin : i, i};
  }
  return {at, at};
}

}  // namespace

Redaction parse_redaction(string_view setting) {
  if (setting.empty() || setting == "secrets") return Redaction::kSecrets;
  if (setting == "paths") return Redaction::kPaths;
  return setting == "none" ? Redaction::kNone : Redaction::kArguments;
}

void Redactor::write_without_secrets(Writer &out, string_view text, Put put) {
  size_t written = 0, i = 0;
  bool begins_word = true, has_words = false;
  for (char c : text) has_words = has_words || is_blank(c) || ends_command(c);
  while (i < text.size()) {
    Span found{i, i};
    if (begins_word && !is_blank(text[i]) && !ends_command(text[i])) {
      // An argument that is an option or its value may have blanks.
      bool is_word = i == 0 && (options_.expects_value() || text[0] == '-');
      has_words = has_words && !is_word;
      Span in_word = options_.take(is_word ? text : word_at(text, i));
      found = {i + in_word.begin, i + in_word.end};
    }
    begins_word = is_blank(text[i]) || ends_command(text[i]);
    if (ends_command(text[i])) options_.begin_command();
    if (found.end > found.begin) {
      // Taken.
    } else if (is_name(text[i])) {
      size_t end = i;
      while (end < text.size() && is_name(text[end])) ++end;
      string_view name = slice(text, i, end - i);
      found = is_token(name) ? Span{i, end} : is_secret(name) ? find_value(text, name, end) : Span{end, end};
      i = end;
    } else if (text[i] == ':' && starts_with(slice(text, i, text.size() - i), "://")) {
      found = find_password(text, i);
      i += 3;
    } else {
      ++i;
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

void Redactor::write(Writer &out, string_view argument, Put put) {
  if (mode_ == Redaction::kPaths) {
    write_hashed(out, argument, put);
    first_ = false;
    return;
  }
  bool whole = mode_ == Redaction::kArguments
                   ? !first_
                   : (expects_secret_ && !is_next_option(argument)) || is_private_key(argument);
  expects_secret_ = mode_ == Redaction::kSecrets && !first_ && is_option(argument) && is_secret(argument);
  first_ = false;
  if (whole && mode_ != Redaction::kNone) {
    put(out, kRedacted);
  } else if (mode_ == Redaction::kSecrets) {
    write_without_secrets(out, argument, put);
  } else {
    put(out, argument);
  }
}

}  // namespace tailrace
