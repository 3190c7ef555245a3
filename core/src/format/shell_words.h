// A text in which a shell's commands may be: where words, quotes and substitutions end (POSIX.1-2024, Shell Command
// Language, 2.2 and 2.3). It is no parser: here-documents, comments and `case` are not known, and a text that is no
// shell's (JSON, prose with an apostrophe) is read as far as it goes.
//
// Invariants: nothing is allocated, nothing recurses, and the words of a whole text are found in time in proportion to
// it.
#pragma once

#include "base/text.h"

namespace tailrace {

class ShellText {
 public:
  explicit ShellText(string_view text) : text_(text) {}

  // A blank, or a backslash at the end of a line, which continues on the next one.
  bool is_blank(size_t at) const;
  size_t skip_blanks(size_t at) const;
  // Ends a command, or begins one: a newline, a separator, a parenthesis.
  bool ends_command(size_t at) const;

  // Behind the character at `at`; where it begins a quote, an escape or a substitution behind all of that, which is the
  // end of the text if nothing closes it, but for an apostrophe. The quote that the scan is in begins none.
  size_t skip_piece(size_t at) const {
    const Piece piece = find_piece(at);
    return piece.is_closed || text_[at] != '\'' ? piece.end : at + 1;
  }
  // Behind the word that begins at `at`; quotes and substitutions that nothing closes are characters as others.
  size_t word_end(size_t at);

  // Moves the scan to `at`, forward only.
  void pass_to(size_t at);
  // Whether the scan is in such a quote.
  bool is_open(char quote) const { return open_ == quote; }

 private:
  struct Piece {
    size_t end;
    bool is_closed;
  };
  bool begins_piece(size_t at) const;
  Piece find_piece(size_t at) const;
  void pass(char c);

  string_view text_;
  size_t passed_ = 0;
  char open_ = 0;
  bool is_escaped_ = false;
  bool has_unclosed_ = false;  // word_end() met one: to look for its end again for each word would take too long
  char lacks_[2] = {};         // quotes of which there is none any more
};

}  // namespace tailrace
