"""What `tailrace managers` tells of GNU make's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="GNU make",
    use='make -f Makefile -f "$(tailrace adapter make)"',
    version=of_program("make", "--version"),
    tested=("4.3", "4.3"),
)
