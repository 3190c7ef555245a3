"""Ports for servers that tests start."""

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Ports below those that the kernel gives to any program that connects before the servers are there.

    Raises OSError where so few are free.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    low = max(1025, first - 10_000)
    ports: list[int] = []
    with ExitStack() as held:
        for port in random.sample(range(low, max(first, low + 1000)), 100):
            with suppress(OSError):
                held.enter_context(socket.create_server(("", port)))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(f"of 100 ports from {low} on, fewer than {count} are free")
