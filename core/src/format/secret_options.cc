// See format/secret_options.h.
#include "format/secret_options.h"

namespace tailrace {

// option: its letter. name: the long option, without dashes, where format/redaction.cc doesn't know it. separator: the
// secret begins behind it (curl -u user:secret); NUL: it is the whole value.
struct SecretOptions::Program {
  string_view program;
  string_view subcommand;
  char option;
  string_view name;
  char separator;
};

namespace {

using Program = SecretOptions::Program;

// The rows of one program stand together.
constexpr Program kPrograms[] = {
    {"7z", "", 'p', "", 0},           {"7za", "", 'p', "", 0},
    {"curl", "", 'u', "user", ':'},   {"curl", "", 'U', "proxy-user", ':'},
    {"docker", "login", 'p', "", 0},  {"helm", "login", 'p', "", 0},
    {"ipmitool", "", 'P', "", 0},     {"ldapadd", "", 'w', "", 0},
    {"ldapmodify", "", 'w', "", 0},   {"ldapsearch", "", 'w', "", 0},
    {"lftp", "", 'u', "user", ','},   {"mariadb", "", 'p', "", 0},
    {"mariadb-dump", "", 'p', "", 0}, {"mongo", "", 'p', "", 0},
    {"mongodump", "", 'p', "", 0},    {"mongoexport", "", 'p', "", 0},
    {"mongoimport", "", 'p', "", 0},  {"mongorestore", "", 'p', "", 0},
    {"mongosh", "", 'p', "", 0},      {"mysql", "", 'p', "", 0},
    {"mysqladmin", "", 'p', "", 0},   {"mysqlcheck", "", 'p', "", 0},
    {"mysqldump", "", 'p', "", 0},    {"mysqlimport", "", 'p', "", 0},
    {"mysqlshow", "", 'p', "", 0},    {"podman", "login", 'p', "", 0},
    {"redis-cli", "", 'a', "", 0},    {"smbclient", "", 'U', "user", '%'},
    {"sqlcmd", "", 'P', "", 0},       {"sshpass", "", 'p', "", 0},
    {"unzip", "", 'P', "", 0},        {"zip", "", 'P', "", 0},
};

const Program *find_program(string_view word) {
  size_t slash = word.rfind('/');
  string_view name = slash == string_view::npos ? word : slice(word, slash + 1, word.size() - slash - 1);
  for (const Program &row : kPrograms) {
    if (row.program == name) return &row;
  }
  return nullptr;
}

constexpr size_t kShortOption = 4, kLongOption = 32;  // longest names

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }

// Where in the word the value of the row's option begins; its size: in the next word; npos: it is not this option.
size_t find_value_of(const Program &row, string_view word) {
  if (word.size() < 2 || word[0] != '-') return string_view::npos;
  if (word[1] == '-') {
    if (row.name.empty() || !starts_with(slice(word, 2, word.size() - 2), row.name)) return string_view::npos;
    size_t end = 2 + row.name.size();
    if (end == word.size()) return end;
    return word[end] == '=' ? end + 1 : string_view::npos;
  }
  if (word[1] == row.option) return 2;
  // At the end of several letters: curl -su user:secret.
  for (char c : slice(word, 1, word.size() - 1)) {
    if (!is_letter(c)) return string_view::npos;
  }
  return word[word.size() - 1] == row.option ? word.size() : string_view::npos;
}

Span secret_in(string_view word, size_t begin, size_t end, char separator) {
  if (separator == 0) return {begin, end};
  for (size_t i = begin; i < end; ++i) {
    if (word[i] == separator) return {i + 1, end};
  }
  return {end, end};
}

}  // namespace

bool is_next_option(string_view word) {
  if (word == "-" || word == "--") return true;
  bool is_long = starts_with(word, "--");
  size_t at = is_long ? 2 : 1;
  if (word.size() <= at || word[0] != '-' || !is_letter(word[at])) return false;
  size_t begin = at++;
  while (at < word.size() && is_digit(word[at])) ++at;
  if (!is_long && at == word.size()) return at - begin <= kShortOption;
  if (!is_lower(word[begin])) return false;
  for (; at < word.size() && word[at] != '='; ++at) {
    if (!is_lower(word[at]) && word[at] != '-' && !(is_long && (is_digit(word[at]) || word[at] == '_'))) return false;
  }
  return at - begin <= kLongOption;
}

void SecretOptions::begin_command() {
  program_ = nullptr;
  is_ready_ = expects_value_ = false;
}

Span SecretOptions::take(string_view word) {
  size_t begin = 0, end = word.size();
  if (end > 1 && (word[0] == '"' || word[0] == '\'') && word[end - 1] == word[0]) {
    ++begin;
    --end;
  }
  const Span nothing{end, end};
  string_view bare = slice(word, begin, end - begin);
  if (expects_value_) {
    expects_value_ = false;
    if (!is_next_option(bare)) return secret_in(word, begin, end, program_->separator);
  }
  // A program may run another one: sshpass -p S mysql -pS.
  if (const Program *found = find_program(bare)) {
    program_ = found;
    is_ready_ = found->subcommand.empty();
    return nothing;
  }
  if (!program_) return nothing;
  if (!is_ready_) {
    is_ready_ = bare == program_->subcommand;
    return nothing;
  }
  const Program *last = kPrograms + sizeof kPrograms / sizeof *kPrograms;
  const Program *first = program_;
  while (first > kPrograms && first[-1].program == program_->program) --first;
  for (const Program *row = first; row < last && row->program == first->program; ++row) {
    size_t at = find_value_of(*row, bare);
    if (at == string_view::npos) continue;
    program_ = row;
    expects_value_ = at == bare.size();
    return expects_value_ ? nothing : secret_in(word, begin + at, end, row->separator);
  }
  return nothing;
}

}  // namespace tailrace
