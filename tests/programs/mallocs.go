// The same of Go, whose C parts allocate with malloc and do their I/O through libc.
package main

/*
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long work(int number) {
  char name[32];
  long sum = 0;
  for (int i = 0; i < 2000; ++i) {
    char *p = malloc(16 + i % 3000);
    memset(p, 1, 16);
    sum += p[3];
    free(p);
  }
  snprintf(name, sizeof name, "thread%d", number);
  FILE *file = fopen(name, "w");
  fprintf(file, "%ld\n", sum);
  fclose(file);
  return sum;
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

func main() {
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			C.work(C.int(number))
		}(i)
	}
	for i := 0; i < 5; i++ {
		out, err := exec.Command("sh", "-c", fmt.Sprintf("echo %d > child%d; cat child%d", i, i, i)).Output()
		fmt.Print(string(out), err, "\n")
	}
	group.Wait()
	os.Exit(7)
}
