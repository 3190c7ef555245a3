/* Two threads of a worker change a manager's variables at the same time: retagged ROUNDS
 *
 * After each round the file round<N>, which does not exist, is opened: by then both threads have set theirs to N.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t begun, done;
static int rounds;

static void *change(void *name) {
  char value[16];
  for (int i = 1; i <= rounds; ++i) {
    snprintf(value, sizeof value, "%d", i);
    pthread_barrier_wait(&begun);
    if (setenv(name, value, 1)) abort();
    pthread_barrier_wait(&done);
  }
  return NULL;
}

int main(int argc, char **argv) {
  char *names[] = {"AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_TRY_NUMBER"};
  pthread_t threads[2];
  if (argc < 2) return 2;
  rounds = atoi(argv[1]);
  pthread_barrier_init(&begun, NULL, 3);
  pthread_barrier_init(&done, NULL, 3);
  if (setenv("AIRFLOW_CTX_TASK_ID", "load", 1)) abort();
  for (int i = 0; i < 2; ++i) {
    if (setenv(names[i], "0", 1)) abort();
  }
  for (int i = 0; i < 2; ++i) {
    if (pthread_create(&threads[i], NULL, change, names[i])) abort();
  }
  for (int i = 1; i <= rounds; ++i) {
    char path[32];
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&done);
    snprintf(path, sizeof path, "round%d", i);
    if (open(path, O_RDONLY) >= 0) abort();
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}
