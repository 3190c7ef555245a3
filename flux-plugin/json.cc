// See json.h.
#include "json.h"

#include <stdarg.h>
#include <stdio.h>

namespace tailrace::flux {

const char *type_of(const json_t *value) {
  if (!value) return "missing";
  switch (json_typeof(value)) {
    case JSON_OBJECT: return "a table";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: break;
  }
  return "null";
}

CString formatted(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = nullptr;
  int n = vasprintf(&text, format, args);
  va_end(args);
  return CString(n < 0 ? nullptr : text);
}

}  // namespace tailrace::flux
