"""The few commands of Flux that the campaign needs, by its command line: no bindings for this Python are asked for."""

import subprocess
import sys


def flux(*arguments):
    """What a command of Flux prints, without the last newline; its errors go to ours and end the program."""
    done = subprocess.run(("flux", *map(str, arguments)), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{sys.argv[0]}: flux {arguments[0]} failed with code {done.returncode}")
    return done.stdout.rstrip("\n")


def traced(options, stage):
    """The options of a submission that is traced as `stage`; none when the campaign isn't traced."""
    return (f"--trace={stage}", f"--trace-tag=round={options.round}") if options.trace else ()


def finish():
    """Waits until all jobs of the instance are done. Ends the program with what the failed ones said."""
    flux("queue", "drain")
    failed = flux("jobs", "-n", "-f", "failed,canceled,timeout", "-o", "{id.f58} {name} {status} {returncode}")
    for line in failed.splitlines():
        print(f"{sys.argv[0]}: {line}", file=sys.stderr)
        subprocess.run(("flux", "job", "attach", line.split()[0]), stdout=sys.stderr, check=False)
    if failed:
        sys.exit(1)
