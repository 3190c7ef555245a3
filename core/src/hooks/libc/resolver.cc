// Hooks: hosts, networks, services, protocols, name servers, and the users of remote hosts (hooks/libc/libc_hooks.h).
#include <netdb.h>
#include <nss.h>
#include <stdint.h>

#include "hooks/libc/libc_hooks.h"
#include "linker/real.h"

using namespace tailrace;

extern "C" {
// The header's names are macros for either.
int plain_res_query(const char *, int, int, unsigned char *, int) __asm__("res_query");
int plain_res_search(const char *, int, int, unsigned char *, int) __asm__("res_search");
int __res_query(const char *, int, int, unsigned char *, int);
int __res_search(const char *, int, int, unsigned char *, int);
int __res_init(void) noexcept;
int __res_ninit(void *);
}

LIBC_HOOK(int, getaddrinfo,
          (const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out),
          (node, service, hints, out))
LIBC_HOOK(int, getnameinfo,
          (const struct sockaddr *address, socklen_t bytes, char *host, socklen_t host_bytes, char *service,
           socklen_t service_bytes, int flags),
          (address, bytes, host, host_bytes, service, service_bytes, flags))

// For hosts and networks there is an error code beside the result.
#define RESULT_WITH_ERROR struct hostent *into, char *buf, size_t n, struct hostent **out, int *error
LIBC_HOOK(struct hostent *, gethostbyname, (const char *name), (name))
LIBC_HOOK(struct hostent *, gethostbyname2, (const char *name, int family), (name, family))
LIBC_HOOK(struct hostent *, gethostbyaddr, (const void *address, socklen_t bytes, int type), (address, bytes, type))
NEXT_HOOK(struct hostent *, gethostent, (), ())
LIBC_HOOK(int, gethostbyname_r, (const char *name, RESULT_WITH_ERROR), (name, into, buf, n, out, error))
LIBC_HOOK(int, gethostbyname2_r, (const char *name, int family, RESULT_WITH_ERROR),
          (name, family, into, buf, n, out, error))
LIBC_HOOK(int, gethostbyaddr_r, (const void *address, socklen_t bytes, int type, RESULT_WITH_ERROR),
          (address, bytes, type, into, buf, n, out, error))
NEXT_HOOK(int, gethostent_r, (RESULT_WITH_ERROR), (into, buf, n, out, error))
STAY_HOOK(sethostent)
#undef RESULT_WITH_ERROR
#define RESULT_WITH_ERROR struct netent *into, char *buf, size_t n, struct netent **out, int *error
LIBC_HOOK(struct netent *, getnetbyname, (const char *name), (name))
LIBC_HOOK(struct netent *, getnetbyaddr, (uint32_t net, int type), (net, type))
NEXT_HOOK(struct netent *, getnetent, (), ())
LIBC_HOOK(int, getnetbyname_r, (const char *name, RESULT_WITH_ERROR), (name, into, buf, n, out, error))
LIBC_HOOK(int, getnetbyaddr_r, (uint32_t net, int type, RESULT_WITH_ERROR), (net, type, into, buf, n, out, error))
NEXT_HOOK(int, getnetent_r, (RESULT_WITH_ERROR), (into, buf, n, out, error))
STAY_HOOK(setnetent)
#undef RESULT_WITH_ERROR

TABLE_HOOKS(servent, getservent)
STAY_HOOK(setservent)
LIBC_HOOK(struct servent *, getservbyname, (const char *name, const char *protocol), (name, protocol))
LIBC_HOOK(struct servent *, getservbyport, (int port, const char *protocol), (port, protocol))
LIBC_HOOK(int, getservbyname_r,
          (const char *name, const char *protocol, struct servent *into, char *buf, size_t n, struct servent **out),
          (name, protocol, into, buf, n, out))
LIBC_HOOK(int, getservbyport_r,
          (int port, const char *protocol, struct servent *into, char *buf, size_t n, struct servent **out),
          (port, protocol, into, buf, n, out))

TABLE_HOOKS(protoent, getprotoent)
STAY_HOOK(setprotoent)
KEY_HOOKS(protoent, getprotobyname, const char *)
KEY_HOOKS(protoent, getprotobynumber, int)

LIBC_HOOK(int, __nss_configure_lookup, (const char *table, const char *services) noexcept, (table, services))

// Name servers, whose addresses the first query reads.
#define QUESTION_HOOK(symbol)                                                                            \
  TAILRACE_HOOK int symbol(const char *name, int a, int b, unsigned char *answer, int n) {               \
    return in_libc(Fn::f_##symbol, Leave::kAlways, [&] { return REAL(symbol)(name, a, b, answer, n); }); \
  }
QUESTION_HOOK(res_query)
QUESTION_HOOK(res_search)
QUESTION_HOOK(__res_query)
QUESTION_HOOK(__res_search)
LIBC_HOOK(int, __res_init, () noexcept, ())
LIBC_HOOK(int, __res_ninit, (void *state), (state))

// The users of remote hosts that are admitted, and passwords for remote hosts.
LIBC_HOOK(int, ruserok, (const char *host, int root, const char *there, const char *here), (host, root, there, here))
LIBC_HOOK(int, ruserok_af, (const char *host, int root, const char *there, const char *here, sa_family_t family),
          (host, root, there, here, family))
LIBC_HOOK(int, iruserok, (uint32_t host, int root, const char *there, const char *here), (host, root, there, here))
LIBC_HOOK(int, iruserok_af, (const void *host, int root, const char *there, const char *here, sa_family_t family),
          (host, root, there, here, family))
LIBC_HOOK(int, ruserpass, (const char *host, const char **name, const char **password), (host, name, password))
