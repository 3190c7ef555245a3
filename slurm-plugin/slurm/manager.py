"""What `tailrace managers` tells of Slurm's adapter."""

from contextlib import suppress

from tailrace.integrations.managers import Manager, of_program


def version() -> str | None:
    """Slurm's version here. Its commands tell none where they find no configuration, its daemon does."""
    with suppress(ValueError):
        return of_program("sinfo", "--version")()
    return of_program("slurmd", "-V")()


MANAGER = Manager(
    title="Slurm",
    use="srun --trace CMD",
    version=version,
    tested=("22.05.8", "22.05.8"),
)
