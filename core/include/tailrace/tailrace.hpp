// C++ API: the C API (tailrace.h) as guards that restore.
#ifndef TAILRACE_TAILRACE_HPP
#define TAILRACE_TAILRACE_HPP

#include <stdexcept>
#include <string>

#include "tailrace/tailrace.h"

namespace tailrace {

// The calling thread records under its context with `tags` added while the scope lives. The scope ends that context: a
// thread that was started in it and still runs records under the process's own context from then on. In an untraced
// process a scope does nothing.
class scope {
 public:
  // Throws std::invalid_argument, naming the key and the rule, when a tag breaks the rules of docs/trace-format.md.
  explicit scope(const std::string &tags) : before_(tailrace_context_current()), context_(enter(tags)) {}
  ~scope() {
    if (context_ == 0) return;
    tailrace_context_finish(context_);
    tailrace_context_switch(before_);
  }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;

 private:
  static tailrace_context enter(const std::string &tags) {
    char message[512];
    if (tailrace_tag_error(tags.c_str(), message, sizeof message) != 0) throw std::invalid_argument(message);
    return tailrace_context_enter(tags.c_str());
  }

  tailrace_context before_;
  tailrace_context context_;
};

}  // namespace tailrace

#endif
