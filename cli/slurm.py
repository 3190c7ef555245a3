"""`tailrace slurm`: prints the line by which Slurm loads the plugin."""

import click

from tailrace import installation
from tailrace.errors import ManagerError


@click.command()
@click.argument("policy", nargs=-1, metavar="[KEY=VALUE]...")
def command(policy: tuple[str, ...]) -> None:
    """Print the line for plugstack.conf by which Slurm gets `srun --trace` (docs/slurm.md).

    KEY=VALUE is the facility's policy: jobs=all, run=/scratch/{user}/{name}-{jobid}, detail=auto, ...

    \b
        tailrace slurm jobs=requested >> /etc/slurm/plugstack.conf
    """
    from tailrace.slurm import PLUGIN

    if not PLUGIN.is_file():
        raise ManagerError(
            "this tailrace was installed without its Slurm plugin, which wheels lack: where Slurm's headers are"
            f" (Debian: libslurm-dev), run {installation.FROM_SOURCE} (docs/slurm.md)"
        )
    wrong = [word for word in policy if "=" not in word or any(c.isspace() for c in word)]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r}: give KEY=VALUE without blanks")
    click.echo(" ".join(["optional", str(PLUGIN), *policy]))
