// See format/shell_words.h.
#include "format/shell_words.h"

namespace tailrace {
namespace {

// Of substitutions in one another; deeper ones are taken to have no end.
constexpr size_t kMostDepth = 8;

bool is_quote(char c) { return c == '\'' || c == '"'; }

// What closes the piece that a character begins by itself; 0: it begins none.
char closing_of(char c) { return is_quote(c) || c == '`' ? c : '\0'; }

// The same behind a "$".
char closing_behind_dollar(char c) {
  if (c == '(') return ')';
  return c == '{' ? '}' : '\0';
}

}  // namespace

bool ShellText::is_blank(size_t at) const {
  const char c = text_[at];
  return c == ' ' || c == '\t' || (c == '\\' && at + 1 < text_.size() && text_[at + 1] == '\n');
}

size_t ShellText::skip_blanks(size_t at) const {
  while (at < text_.size() && is_blank(at)) at += text_[at] == '\\' ? 2 : 1;
  return at;
}

bool ShellText::ends_command(size_t at) const {
  const char c = text_[at];
  return c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')';
}

bool ShellText::begins_piece(size_t at) const {
  const char c = text_[at];
  if (c == '$') return at + 1 < text_.size() && closing_behind_dollar(text_[at + 1]) != 0;
  return c != open_ && (c == '\\' || closing_of(c) != 0);
}

ShellText::Piece ShellText::find_piece(size_t at) const {
  if (!begins_piece(at)) return {at + 1, true};
  char open[kMostDepth];  // by what closes them
  size_t depth = 0;
  do {
    const char c = text_[at], inside = depth ? open[depth - 1] : '\0';
    char closing = 0;
    if (c == inside) {
      --depth;
    } else if (inside == '\'') {
      // Nothing is special.
    } else if (c == '\\') {
      ++at;
    } else if (c == '$' && at + 1 < text_.size()) {
      closing = closing_behind_dollar(text_[at + 1]);
      if (closing) ++at;
    } else if (inside == '"') {
      closing = c == '`' ? c : '\0';
    } else {
      closing = c == '(' && inside == ')' ? ')' : closing_of(c);
    }
    if (closing) {
      if (depth == kMostDepth) return {text_.size(), false};
      open[depth++] = closing;
    }
    ++at;
  } while (depth > 0 && at < text_.size());
  return {at < text_.size() ? at : text_.size(), depth == 0};
}

size_t ShellText::word_end(size_t at) {
  while (at < text_.size() && !is_blank(at) && !ends_command(at)) {
    const Piece piece = has_unclosed_ ? Piece{at + 1, true} : find_piece(at);
    has_unclosed_ = has_unclosed_ || !piece.is_closed;
    at = piece.is_closed ? piece.end : at + 1;
  }
  return at;
}

void ShellText::pass(char c) {
  const bool was_escaped = is_escaped_;
  is_escaped_ = !was_escaped && c == '\\' && open_ != '\'';
  if (was_escaped || !is_quote(c)) return;
  if (c == open_) {
    open_ = 0;
    return;
  }
  char &lacks = lacks_[c == '"'];
  if (open_ || lacks) return;
  // An apostrophe opens nothing.
  if (text_.find(c, passed_ + 1) == string_view::npos) {
    lacks = c;
  } else {
    open_ = c;
  }
}

void ShellText::pass_to(size_t at) {
  for (; passed_ < at; ++passed_) pass(text_[passed_]);
}

}  // namespace tailrace
