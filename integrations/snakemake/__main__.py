"""`python -m tailrace.snakemake ARGUMENTS` is `python -m snakemake ARGUMENTS`, with the hooks."""

import logging
import os
import runpy

from tailrace.integrations.isolation import Isolation
from tailrace.snakemake import driver, hooks
from tailrace.snakemake.hand_over import taken
from tailrace.snakemake.spawned import Spawned

_isolated = Isolation(logging.getLogger("tailrace.snakemake"))
with _isolated("follow Snakemake"):
    _orders = taken(os.environ)
    if _orders is None:
        driver.start()
    else:
        hooks.install(Spawned(_orders), _isolated)
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
