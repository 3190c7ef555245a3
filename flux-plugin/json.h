// Owners for jansson's values and malloc's strings. Like the core, the plugins link no C++ runtime library.
#pragma once

#include <jansson.h>
#include <stdlib.h>

#include <memory>

#include "base/text.h"

namespace tailrace::flux {

class Json {
 public:
  Json() = default;
  explicit Json(json_t *owned) : value_(owned) {}
  Json(Json &&other) noexcept : value_(other.release()) {}
  Json &operator=(Json &&other) noexcept {
    if (this != &other) {
      json_decref(value_);
      value_ = other.release();
    }
    return *this;
  }
  ~Json() { json_decref(value_); }

  static Json share(json_t *borrowed) { return Json(json_incref(borrowed)); }
  json_t *get() const { return value_; }
  explicit operator bool() const { return value_ != nullptr; }
  json_t *release() {
    json_t *value = value_;
    value_ = nullptr;
    return value;
  }

 private:
  json_t *value_ = nullptr;
};

struct Free {
  void operator()(void *p) const { free(p); }
};
using CString = std::unique_ptr<char, Free>;

// Null if `object` is not an object or lacks the member.
inline json_t *member(const json_t *object, const char *name) { return json_object_get(object, name); }

inline string_view text_of(const json_t *string) {
  return json_is_string(string) ? string_view(json_string_value(string), json_string_length(string)) : string_view();
}

// The value's type for a message, with its article.
const char *type_of(const json_t *value);

// As printf; null when memory runs out.
CString formatted(const char *format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace tailrace::flux
