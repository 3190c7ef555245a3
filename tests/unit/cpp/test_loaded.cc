#include "linker/loaded.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

using tailrace::Exports;

namespace {

struct Object {
  std::string name;
  uintptr_t base;
  const ElfW(Dyn) * dynamic;
};

std::vector<Object> objects() {
  std::vector<Object> all;
  for (const link_map *m = _r_debug.r_map; m; m = m->l_next) all.push_back({m->l_name, m->l_addr, m->l_ld});
  return all;
}

const char *at(const Object &object, int64_t tag) {
  for (const ElfW(Dyn) *d = object.dynamic; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag != tag) continue;
    return reinterpret_cast<const char *>(d->d_un.d_ptr < object.base ? object.base + d->d_un.d_ptr : d->d_un.d_ptr);
  }
  return nullptr;
}

// The names of all symbols: the string table follows the table of symbols.
std::map<std::string, int> symbols(const Object &object) {
  std::map<std::string, int> names;
  auto *symbol = reinterpret_cast<const ElfW(Sym) *>(at(object, DT_SYMTAB));
  const char *strings = at(object, DT_STRTAB);
  for (; reinterpret_cast<const char *>(symbol + 1) <= strings; ++symbol) ++names[strings + symbol->st_name];
  return names;
}

}  // namespace

TEST(Exports, FindsWhatTheDynamicLinkerFinds) {
  int functions = 0, chosen = 0, several = 0;
  for (const Object &object : objects()) {
    Exports exports;
    if (object.name.find("libc.so") == std::string::npos && object.name.find("libstdc++") == std::string::npos)
      continue;
    void *handle = dlopen(object.name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    ASSERT_TRUE(handle && exports.read(object.base, object.dynamic)) << object.name;
    EXPECT_NE(std::string(exports.soname()).find("lib"), std::string::npos);
    for (auto [name, count] : symbols(object)) {
      uintptr_t address = 0;
      auto found = exports.find(name.c_str(), address);
      bool is_chosen = found == Exports::Found::kResolver;
      EXPECT_EQ(found == Exports::Found::kFunction || is_chosen, address != 0) << name;
      if (is_chosen) address = Exports::resolve(address);
      if (address) {
        EXPECT_EQ(reinterpret_cast<void *>(address), dlsym(handle, name.c_str())) << object.name << ' ' << name;
      }
      functions += found == Exports::Found::kFunction;
      chosen += is_chosen;
      several += address && count > 1;
    }
    dlclose(handle);
  }
  // libc has thousands, some of them in several versions, and some whose address a function chooses (7 on aarch64).
  EXPECT_GT(functions, 2000);
  EXPECT_GT(several, 10);
  EXPECT_GE(chosen, 5);
}

TEST(Exports, AbsentSymbolsAreNotFound) {
  for (const Object &object : objects()) {
    Exports exports;
    uintptr_t address = 0;
    if (!exports.read(object.base, object.dynamic)) continue;
    EXPECT_NE(exports.find("no_library_has_this", address), Exports::Found::kFunction) << object.name;
    EXPECT_EQ(address, 0u);
  }
}
