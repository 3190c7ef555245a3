// For a library or module that has the C++ library in itself, and so its demangler: a twelfth of it, for the type's
// name in the message of an exception that nothing catches. The linker takes this function in its place, and the name
// stays as the compiler writes it (c++filt reads it).
#include <cstddef>

extern "C" __attribute__((visibility("hidden"))) char *__cxa_demangle(const char *, char *, size_t *, int *status) {
  constexpr int kNoName = -2;  // "mangled_name is not a valid name under the C++ ABI mangling rules"
  if (status != nullptr) *status = kNoName;
  return nullptr;
}
