// A command line: the input's parts between NULs are its arguments. What is written are parts of the arguments, in their order, and
// kRedacted.
#include "format/redaction.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.h"

using namespace tailrace;
using fuzz::require;

namespace {

string_view g_argument;
size_t g_written;  // bytes of g_argument up to which parts were written

void put(Writer & /*out*/, string_view part) {
  if (part == kRedacted && (part.data() < g_argument.data() || part.data() > g_argument.data() + g_argument.size())) {
    return;
  }
  require(part.data() >= g_argument.data() + g_written, "parts come in their order");
  g_written = static_cast<size_t>(part.data() - g_argument.data()) + part.size();
  require(g_written <= g_argument.size(), "parts lie in the argument");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  Redactor redactor(Redaction::kSecrets);
  Writer nothing(nullptr, 0);
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\0', at), text.size());
    // An allocation of its own, so that the sanitizer checks its end.
    std::vector<char> argument(text.begin() + static_cast<long>(at), text.begin() + static_cast<long>(end));
    g_argument = {argument.data(), argument.size()};
    g_written = 0;
    redactor.write(nothing, g_argument, put);
    at = end + 1;
  }
  return 0;
}
