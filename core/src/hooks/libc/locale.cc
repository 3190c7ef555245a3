// Hooks: locales, catalogues of messages and character sets (hooks/libc/libc_hooks.h).
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <nl_types.h>

#include "hooks/libc/libc_hooks.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" locale_t __newlocale(int, const char *, locale_t);

// The file of aliases is read at the first name without a locale of its own; the C locale has no files. Catalogues of
// messages are mapped.
static FirstTimes g_locales(2), g_catalogues(2);
static bool has_files(const char *name) { return name && !(name[0] == 'C' && !name[1]); }
RARE_HOOK(char *, setlocale, (int category, const char *name) noexcept, (category, name),
          has_files(name) && g_locales.take())
RARE_HOOK(locale_t, newlocale, (int mask, const char *name, locale_t base) noexcept, (mask, name, base),
          has_files(name) && g_locales.take())
RARE_HOOK(locale_t, __newlocale, (int mask, const char *name, locale_t base), (mask, name, base),
          has_files(name) && g_locales.take())
#define MESSAGE_HOOK(symbol, parameters, arguments) \
  RARE_HOOK(char *, symbol, parameters noexcept, arguments, g_catalogues.take())
MESSAGE_HOOK(gettext, (const char *text), (text))
MESSAGE_HOOK(dgettext, (const char *domain, const char *text), (domain, text))
MESSAGE_HOOK(dcgettext, (const char *domain, const char *text, int category), (domain, text, category))
MESSAGE_HOOK(ngettext, (const char *one, const char *many, unsigned long n), (one, many, n))
MESSAGE_HOOK(dngettext, (const char *domain, const char *one, const char *many, unsigned long n),
             (domain, one, many, n))
MESSAGE_HOOK(dcngettext, (const char *domain, const char *one, const char *many, unsigned long n, int category),
             (domain, one, many, n, category))
RARE_HOOK(nl_catd, catopen, (const char *name, int flag), (name, flag), true)
RARE_HOOK(iconv_t, iconv_open, (const char *to, const char *from), (to, from), true)
