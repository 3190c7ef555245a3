// See linker/plain_names.h. Only the name in front of the parameters is written; types inside of it are skipped.
#include "linker/plain_names.h"

namespace tailrace {
namespace {

constexpr int kMostNesting = 32;

struct Operator {
  char code[3];
  const char *text;
};
constexpr Operator kOperators[] = {
    {"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"}, {"aw", " co_await"}, {"ps", "+"},
    {"ng", "-"},    {"ad", "&"},      {"de", "*"},       {"co", "~"},         {"pl", "+"},         {"mi", "-"},
    {"ml", "*"},    {"dv", "/"},      {"rm", "%"},       {"an", "&"},         {"or", "|"},         {"eo", "^"},
    {"aS", "="},    {"pL", "+="},     {"mI", "-="},      {"mL", "*="},        {"dV", "/="},        {"rM", "%="},
    {"aN", "&="},   {"oR", "|="},     {"eO", "^="},      {"ls", "<<"},        {"rs", ">>"},        {"lS", "<<="},
    {"rS", ">>="},  {"eq", "=="},     {"ne", "!="},      {"lt", "<"},         {"gt", ">"},         {"le", "<="},
    {"ge", ">="},   {"ss", "<=>"},    {"nt", "!"},       {"aa", "&&"},        {"oo", "||"},        {"pp", "++"},
    {"mm", "--"},   {"cm", ","},      {"pm", "->*"},     {"pt", "->"},        {"cl", "()"},        {"ix", "[]"},
};
struct Abbreviation {
  char code;
  const char *text;
};
constexpr Abbreviation kStandard[] = {{'a', "std::allocator"}, {'b', "std::basic_string"}, {'s', "std::string"},
                                      {'i', "std::istream"},   {'o', "std::ostream"},      {'d', "std::iostream"}};

struct BuiltIn {
  char code;
  const char *text;
};
constexpr BuiltIn kBuiltIn[] = {
    {'b', "bool"},           {'c', "char"},      {'h', "unsigned char"},      {'s', "short"},
    {'t', "unsigned short"}, {'i', "int"},       {'j', "unsigned int"},       {'l', "long"},
    {'m', "unsigned long"},  {'x', "long long"}, {'y', "unsigned long long"}, {'f', "float"},
    {'d', "double"}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// What follows `_Z`. Each function takes a part of the text and is false where it is not what it should be.
class Mangled {
 public:
  Mangled(string_view text, Writer &out) : text_(text), out_(out) {}

  bool write_name() { return name(); }

 private:
  // A level of nesting, or text that is skipped.
  class Inner {
   public:
    Inner(Mangled &m, bool is_skipped) : m_(m), skipped_(m.skipped_) {
      ++m.nesting_;
      m.skipped_ = m.skipped_ || is_skipped;
    }
    ~Inner() {
      --m_.nesting_;
      m_.skipped_ = skipped_;
    }
    Inner(const Inner &) = delete;
    Inner &operator=(const Inner &) = delete;
    explicit operator bool() const { return m_.nesting_ < kMostNesting; }

   private:
    Mangled &m_;
    bool skipped_;
  };

  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(const char (&two)[3]) {
    if (peek() != two[0] || peek(1) != two[1]) return false;
    at_ += 2;
    return true;
  }
  void write(string_view text) {
    if (!skipped_) out_ << text;
  }
  bool take_until(char end) {
    while (at_ < text_.size() && text_[at_] != end) ++at_;
    return take(end);
  }

  bool name() {
    Inner level(*this, false);
    if (!level) return false;
    if (take('N')) return nested();
    if (take('Z')) return local();
    if (take("St")) {
      write("std::");
      return unqualified({}) && arguments();
    }
    if (peek() == 'S') return substitution() && arguments();
    return unqualified({}) && arguments();
  }

  // Behind 'N', to its 'E'.
  bool nested() {
    while (peek() == 'r' || peek() == 'V' || peek() == 'K') ++at_;
    if (peek() == 'R' || peek() == 'O') ++at_;
    string_view last;  // the class, of which a constructor has the name
    for (bool is_first = true; !take('E'); is_first = false) {
      if (peek() == 'I') {
        if (is_first || !arguments()) return false;
        continue;
      }
      if (take('M')) continue;  // a lambda's data member
      if (!is_first) write("::");
      const size_t before = out_.size();
      const bool is_known = peek() == 'S' ? (take("St") ? (write("std"), true) : substitution())
                            : peek() == 'T' || (peek() == 'D' && !is_digit(peek(1))) ? skipped_ && type()
                                                                                     : unqualified(last);
      if (!is_known) return false;
      const string_view all = out_.view();
      last = slice(all, before, all.size() - before);
      const size_t colons = last.rfind("::");
      if (colons != string_view::npos) last = slice(last, colons + 2, last.size() - colons - 2);
    }
    return true;
  }

  // Behind 'Z': a function with its parameters, 'E', and what is in it.
  bool local() {
    if (!name() || !types('E')) return false;
    if (take('s')) return discriminator();  // a string
    if (take('d') && !take_until('_')) return false;
    write("::");
    return name() && discriminator();
  }

  bool discriminator() {
    if (!take('_')) return true;
    if (take('_')) return take_until('_');
    if (!is_digit(peek())) return false;
    ++at_;
    return true;
  }

  bool unqualified(string_view owner) {
    take('L');
    const char c = peek();
    bool is_known = false;
    if (is_digit(c)) {
      is_known = source_name();
    } else if (c == 'C' || (c == 'D' && is_digit(peek(1)))) {
      const bool is_inherited = peek(1) == 'I';
      at_ += is_inherited ? 3 : 2;
      write(c == 'D' ? "~" : "");
      write(owner);
      Inner base(*this, true);
      is_known = (skipped_ || !owner.empty()) && (!is_inherited || type());
    } else if (c == 'U') {
      is_known = unnamed();
    } else if (is_lower(c)) {
      is_known = operator_name();
    }
    while (is_known && take('B')) {
      Inner tag(*this, true);
      is_known = source_name();
    }
    return is_known;
  }

  bool source_name() {
    string_view rest = slice(text_, at_, text_.size() - at_);
    const size_t before = rest.size();
    uint64_t bytes;
    if (!take_decimal(rest, bytes) || bytes == 0 || bytes > rest.size()) return false;
    at_ += before - rest.size() + bytes;
    const string_view own = slice(rest, 0, bytes);
    write(starts_with(own, "_GLOBAL__N") ? string_view("(anonymous namespace)") : own);
    return true;
  }

  bool unnamed() {
    const bool is_lambda = take("Ul");
    if (!is_lambda && !take("Ut")) return false;
    if (is_lambda && !types('E')) return false;
    string_view rest = slice(text_, at_, text_.size() - at_);
    uint64_t number = 0;
    const bool has_number = take_decimal(rest, number);
    at_ = text_.size() - rest.size();
    write(is_lambda ? "{lambda#" : "{unnamed#");
    if (!skipped_) out_.number(has_number ? static_cast<int64_t>(number) + 2 : 1);
    write("}");
    return take('_');
  }

  bool operator_name() {
    if (take("cv")) {
      write("operator ");
      return skipped_ ? type() : conversion();
    }
    if (take("li")) {
      write("operator\"\" ");
      return source_name();
    }
    for (const Operator &o : kOperators) {
      if (peek() != o.code[0] || peek(1) != o.code[1]) continue;
      at_ += 2;
      write("operator");
      write(o.text);
      return true;
    }
    return false;
  }

  // To a type whose words are one name.
  bool conversion() {
    if (is_digit(peek()) || peek() == 'N' || (peek() == 'S' && peek(1) == 't')) return name();
    for (const BuiltIn &type : kBuiltIn) {
      if (take(type.code)) return write(type.text), true;
    }
    return false;
  }

  // Of an earlier part, which in front of the parameters only a skipped one can be, or an abbreviation of a standard
  // name.
  bool substitution() {
    if (!take('S')) return false;
    for (const Abbreviation &a : kStandard) {
      if (take(a.code)) return write(a.text), true;
    }
    return skipped_ && take_until('_');
  }

  bool arguments() {
    if (!take('I')) return true;
    return types('E');
  }

  // Types and template arguments, to the letter that ends them.
  bool types(char end) {
    Inner level(*this, true);
    if (!level) return false;
    while (!take(end)) {
      if ((peek() == 'R' || peek() == 'O') && peek(1) == end)
        ++at_;  // of a function's reference qualifier
      else if (!argument())
        return false;
    }
    return true;
  }

  bool argument() {
    if (take('X')) return expression();
    if (take('J')) return types('E');
    return peek() == 'L' ? literal() : type();
  }

  bool literal() {
    if (!take('L')) return false;
    Inner level(*this, true);
    if (!level) return false;
    if (take("_Z") || take('Z')) return name() && types('E');
    return type() && take_until('E');
  }

  bool type() {
    Inner level(*this, true);
    if (!level || at_ >= text_.size()) return false;
    const char c = peek();
    if (is_digit(c)) return source_name() && tags() && arguments();
    switch (c) {
      case 'P':
      case 'R':
      case 'O':
      case 'K':
      case 'V':
      case 'r':
      case 'C':
      case 'G': return ++at_, type();
      case 'N': return ++at_, nested();
      case 'Z': return ++at_, local();
      case 'F': return ++at_, take('Y'), types('E');
      case 'M': return ++at_, type() && type();
      case 'A': return ++at_, (is_digit(peek()) || peek() == '_') && take_until('_') && type();
      case 'T': return ++at_, take_until('_') && arguments();
      case 'S': return (take("St") ? unqualified({}) : substitution()) && tags() && arguments();
      case 'D': return type_of_two_letters();
      case 'U':
        if (peek(1) == 'l' || peek(1) == 't') return unnamed();
        return ++at_, source_name() && arguments() && type();
      case 'u': return ++at_, source_name();
      default: return is_lower(c) && (++at_, true);
    }
  }

  bool tags() {
    while (take('B')) {
      if (!source_name()) return false;
    }
    return true;
  }

  bool type_of_two_letters() {
    if (take("Dp") || take("Do")) return type();
    if (take("Dt") || take("DT")) return expression();
    if (take("Dv") || take("DF") || take("DB") || take("DU")) {
      const bool is_vector = text_[at_ - 1] == 'v';
      while (is_digit(peek())) ++at_;
      if (peek() == 'b' || peek() == 'x') return ++at_, true;
      return take('_') && (!is_vector || type());
    }
    if (!is_lower(peek(1))) return false;
    at_ += 2;
    return true;
  }

  // To the 'E' that ends it: what may hold one is taken as a whole.
  bool expression() {
    Inner level(*this, true);
    if (!level) return false;
    while (!take('E')) {
      const char c = peek();
      if (take("cl") || take("il") || take("nw") || take("na") || take("sP")) {
        if (!expression()) return false;
      } else if (take("tl")) {
        if (!type() || !expression()) return false;
      } else if (take("fp") || take("fL")) {
        if (!take_until('_')) return false;
      } else if (is_lower(c) && (is_lower(peek(1)) || peek(1) == 'Z')) {
        at_ += 2;
      } else if (!argument()) {
        return false;
      }
    }
    return true;
  }

  string_view text_;
  Writer &out_;
  size_t at_ = 0;
  int nesting_ = 0;
  bool skipped_ = false;
};

bool write_cplusplus(string_view symbol, Writer &out) {
  if (!starts_with(symbol, "_Z")) return false;
  const size_t before = out.size();
  if (Mangled(slice(symbol, 2, symbol.size() - 2), out).write_name()) return true;
  out.truncate(before);
  return false;
}

bool write_fortran(string_view symbol, Writer &out) {
  const size_t joint = symbol.find("_MOD_");
  if (!starts_with(symbol, "__") || joint == string_view::npos || joint < 3) return false;
  out << slice(symbol, 2, joint - 2) << "::" << slice(symbol, joint + 5, symbol.size() - joint - 5);
  return true;
}

}  // namespace

void write_plain_name(string_view symbol, Writer &out) {
  if (write_cplusplus(symbol, out)) return;
  const size_t dot = symbol.find('.');
  if (dot != string_view::npos && dot > 0) symbol = slice(symbol, 0, dot);
  if (!write_fortran(symbol, out)) out << symbol;
}

}  // namespace tailrace
