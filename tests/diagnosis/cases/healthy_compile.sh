# shellcheck shell=bash source=tests/diagnosis/common.sh
# make -j2 compiles eight C files and links them.
. "$(dirname "$0")/../common.sh"
for i in 1 2 3 4 5 6 7 8; do
  { echo '#include <math.h>'; for n in $(seq 300); do echo "double f${i}_$n(double x) { return sin(x) * $n + cos(x * $i); }"; done; } > m$i.c
done
echo 'double f1_1(double); int main(void) { return f1_1(1) > 5; }' > main.c
cat > Makefile << 'M'
OBJECTS = main.o m1.o m2.o m3.o m4.o m5.o m6.o m7.o m8.o
program: $(OBJECTS)
	gcc -o $@ $^ -lm
%.o: %.c
	gcc -O2 -c -o $@ $<
M
traced make -f Makefile -f "$(tailrace adapter make)" -j2
