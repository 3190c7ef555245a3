"""The logger plugin `tailrace` of Snakemake: `snakemake --logger tailrace` (tailrace.snakemake).

Snakemake imports all plugins that it finds whenever it starts, and doesn't start where one can't be imported. So this
module imports nothing of ours, and has no options: Snakemake adds those of each plugin to its own.
"""

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Says nothing itself: it is how Snakemake loads the hooks."""

    def __post_init__(self) -> None:
        import logging

        try:
            from tailrace.snakemake import driver

            driver.start()
        except Exception as error:
            logging.getLogger("tailrace.snakemake").warning("tailrace: this workflow is not traced: %s", error)

    def emit(self, record: LogRecord) -> None:
        """Nothing: the hooks know more."""

    @property
    def writes_to_stream(self) -> bool:
        return False

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return True

    @property
    def has_formatter(self) -> bool:
        return True

    @property
    def needs_rulegraph(self) -> bool:
        return False
