/* Libraries that the dynamic linker looks at and does not load. libraries LIBRARY, a copy of which lies here as
 * another.so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void load(const char *name, int flags) {
  void *handle = dlopen(name, flags);
  printf("%s %d\n", name, handle != NULL);
}

static void make(const char *name, const char *bytes, size_t n) {
  FILE *out = fopen(name, "w");
  fwrite(bytes, 1, n, out);
  fclose(out);
}

static void *load_in_thread(void *unused) {
  load("./second.so", RTLD_NOW | RTLD_NOLOAD);
  return NULL;
}

int main(int argc, char **argv) {
  char text[5000] = "\177ELF no more than that";
  load(argv[1], RTLD_NOW);
  symlink(argv[1], "first.so");
  link(argv[1], "second.so");
  load("./first.so", RTLD_NOW);
  load("./first.so", RTLD_NOW);
  load("./second.so", RTLD_NOW | RTLD_NOLOAD);
  load("./another.so", RTLD_NOW | RTLD_NOLOAD);
  load("./another.so", RTLD_NOW);
  make("wrong.so", text, sizeof text);
  make("short.so", text, 4);
  load("./wrong.so", RTLD_NOW);
  load("./short.so", RTLD_NOW);
  load("./nowhere.so", RTLD_NOW);
  load(".", RTLD_NOW);
  load(NULL, RTLD_NOW);
  for (int i = 0; i < 3; ++i) dlclose(dlopen("libm.so.6", RTLD_NOW));
  dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
  /* What a stream reads ahead after is no library's. */
  load("./wrong.so", RTLD_NOW);
  FILE *in = fopen("wrong.so", "r");
  fgetc(in);
  load("./nowhere.so", RTLD_NOW);
  pthread_t thread;
  pthread_create(&thread, NULL, load_in_thread, NULL);
  pthread_join(thread, NULL);
  return 0;
}
