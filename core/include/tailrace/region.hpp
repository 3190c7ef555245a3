// Regions of a program, for C++: header only, nothing to link. Where the program is not traced, a region costs one load and
// one branch at either end.
//
//     #include <tailrace/region.hpp>
//
//     void solve() {
//       TAILRACE_FUNCTION();                        // a region `solve` until the function returns or throws
//       for (int step = 0; step < n; ++step) {
//         TAILRACE_REGION_WITH("step", "compute", tailrace::keys().step(step));
//       }
//     }
//
// A region whose name is made at run time: tailrace::region r("read " + file), which costs a look-up of the name more.
#ifndef TAILRACE_REGION_HPP
#define TAILRACE_REGION_HPP

#include <string>

#include "tailrace/region.h"

namespace tailrace {

// What a region has besides its name and category.
class keys {
 public:
  keys &epoch(int64_t number) { return epoch_ = number, *this; }
  keys &step(int64_t number) { return step_ = number, *this; }
  // A key as a tag's (docs/trace-format.md, "Tags"); an empty value is none.
  keys &add(const std::string &key, const std::string &value) {
    if (value.empty()) return *this;
    if (!text_.empty()) text_ += ',';
    text_ += key + '=';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (plain) {
        text_ += c;
      } else {
        text_ += '%';
        text_ += "0123456789ABCDEF"[byte >> 4];
        text_ += "0123456789ABCDEF"[byte & 15];
      }
    }
    return *this;
  }
  keys &add(const std::string &key, int64_t value) { return add(key, std::to_string(value)); }

 private:
  friend class region_with;
  int64_t epoch_ = TAILRACE_NO_KEY, step_ = TAILRACE_NO_KEY;
  std::string text_;
};

// A region of the block.
class region {
 public:
  explicit region(tailrace_site &site) { tailrace_region_begin(&region_, &site); }
  explicit region(const std::string &name, const std::string &category = "") {
    tailrace_site site = TAILRACE_SITE(name.c_str(), category.c_str());
    tailrace_region_begin(&region_, &site);
  }
  ~region() { tailrace_region_end(&region_); }
  region(const region &) = delete;
  region &operator=(const region &) = delete;

 private:
  tailrace_region region_;
};

// The same with keys, from its begin or by update().
class region_with {
 public:
  region_with(tailrace_site &site, const keys &with) : keys_(with) { begin(site); }
  region_with(const std::string &name, const std::string &category, const keys &with) : keys_(with) {
    tailrace_site site = TAILRACE_SITE(name.c_str(), category.c_str());
    begin(site);
  }
  ~region_with() {
    if (tailrace_regions == nullptr) return;
    tailrace_regions->end(&region_, keys_.epoch_, keys_.step_, text(), changed_);
  }
  region_with(const region_with &) = delete;
  region_with &operator=(const region_with &) = delete;

  // What became known in the region.
  keys &update() { return changed_ = 1, keys_; }

 private:
  void begin(tailrace_site &site) { tailrace_region_begin_with(&region_, &site, keys_.epoch_, keys_.step_, text()); }
  const char *text() const { return keys_.text_.empty() ? nullptr : keys_.text_.c_str(); }

  tailrace_region region_;
  keys keys_;
  int changed_ = 0;
};

}  // namespace tailrace

#define TAILRACE_JOIN_(a, b) a##b
#define TAILRACE_NAME_(name, line) TAILRACE_JOIN_(name, line)
#define TAILRACE_SITE_HERE_(name, category) \
  static tailrace_site TAILRACE_NAME_(tailrace_site_, __LINE__) = TAILRACE_SITE(name, category)
// A region until the end of the block; name and category are literals.
#define TAILRACE_REGION(name, category) \
  TAILRACE_SITE_HERE_(name, category);  \
  tailrace::region TAILRACE_NAME_(tailrace_region_, __LINE__)(TAILRACE_NAME_(tailrace_site_, __LINE__))
#define TAILRACE_REGION_WITH(name, category, ...)                                                            \
  TAILRACE_SITE_HERE_(name, category);                                                                       \
  tailrace::region_with TAILRACE_NAME_(tailrace_region_, __LINE__)(TAILRACE_NAME_(tailrace_site_, __LINE__), \
                                                                   __VA_ARGS__)
#define TAILRACE_FUNCTION() TAILRACE_REGION(__func__, "")

#endif
