/* A library that instrumented.c loads: its function NAME opens a file. */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static __attribute__((noinline)) void NAME(void (*begins)(const char *), void (*opens)(void), void (*ends)(void)) {
  begins(TEXT(NAME));
  opens();
  ends();
}
void plugin(void (*begins)(const char *), void (*opens)(void), void (*ends)(void)) { NAME(begins, opens, ends); }
