// The address of every hook's wrapper, for dlsym on a handle and for GOTCHA. Declared without their many types, since
// only the addresses are used.
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
#define HOOK(symbol, ...) extern "C" void symbol();
#include "format/hooks.def"
#undef HOOK

namespace tailrace {
extern void *const kWrappers[] = {
#define HOOK(symbol, ...) reinterpret_cast<void *>(&::symbol),
#include "format/hooks.def"
#undef HOOK
};
extern const size_t kWrapperCount = sizeof kWrappers / sizeof kWrappers[0];
}  // namespace tailrace
