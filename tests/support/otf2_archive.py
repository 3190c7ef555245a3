"""An archive of OTF2 by its own Python package, for tests of reading one."""

from pathlib import Path

import pytest


def archive(path: Path) -> None:
    """Two ranks; each has a region with a write of 4,096 bytes in it, the second one another that never ends."""
    otf2 = pytest.importorskip("otf2", reason="the otf2 package is not installed")
    with otf2.writer.open(str(path), timer_resolution=1_000_000) as trace:
        definitions = trace.definitions
        node = definitions.system_tree_node("node7", parent=definitions.system_tree_node("machine"))
        region = definitions.region("compute")
        posix = definitions.io_paradigm(
            identification="POSIX",
            name="POSIX I/O",
            io_paradigm_class=otf2.IoParadigmClass.SERIAL,
            io_paradigm_flags=otf2.IoParadigmFlag.NONE,
        )
        file = definitions.io_regular_file("/data/x", scope=node)
        handle = definitions.io_handle(file=file, io_paradigm=posix, name="x")
        for rank in range(2):
            group = definitions.location_group(f"MPI Rank {rank}", system_tree_parent=node)
            writer = trace.event_writer_from_location(definitions.location("Master thread", group=group))
            at = 1000 * rank
            writer.enter(at + 10, region)
            writer.io_operation_begin(
                at + 20, handle, otf2.IoOperationMode.WRITE, otf2.IoOperationFlag.NONE, 8192, matching_id=rank
            )
            writer.io_operation_complete(at + 30, handle, 4096, matching_id=rank)
            writer.leave(at + 40, region)
            if rank:
                writer.enter(at + 50, region)
