// Annotated for DFTracer, by its macros for C++ and for C: annotated FILE
#ifdef WITH_DFTRACER
#include <dftracer/dftracer.h>
#else
#include "tailrace/dftracer.h"
#endif
#include <fcntl.h>
#include <unistd.h>

static const char *file;

static void touch() {
  DFTRACER_CPP_FUNCTION();
  DFTRACER_CPP_FUNCTION_UPDATE("size", 4);
  close(open(file, O_RDONLY));
}

static void in_c(int step) {
  DFTRACER_C_FUNCTION_START();
  DFTRACER_C_FUNCTION_UPDATE_INT("step", step);
  DFTRACER_C_FUNCTION_UPDATE_STR("Model Name", "u net, 3d");
  DFTRACER_C_REGION_START(part);
  close(open(file, O_RDONLY));
  DFTRACER_C_REGION_END(part);
  DFTRACER_C_FUNCTION_END();
}

int main(int, char **argv) {
  file = argv[1];
  DFTRACER_CPP_INIT(nullptr, nullptr, nullptr);
  DFTRACER_CPP_METADATA(meta, "kind", "test");
  {
    DFTRACER_CPP_REGION(outer);
    DFTRACER_CPP_REGION_UPDATE(outer, "epoch", 2);
    touch();
    DFTRACER_CPP_REGION_START(by_hand);
    DFTRACER_CPP_REGION_DYN_UPDATE(by_hand, "name", "value");
    touch();
    DFTRACER_CPP_REGION_END(by_hand);
  }
  for (int step = 0; step < 2; ++step) in_c(step);
  DFTRACER_CPP_FINI();
  return 0;
}
