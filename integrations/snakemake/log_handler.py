"""Snakemake 7 loads this file: `--log-handler-script "$(tailrace adapter snakemake)"`."""

from collections.abc import Mapping
from typing import Any

from tailrace.snakemake import driver

driver.start()


def log_handler(msg: Mapping[str, Any]) -> None:
    """Snakemake requires it; what it says is not needed."""
