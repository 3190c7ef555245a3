"""Connections in the stories of flowcase.py."""

from __future__ import annotations

from typing import Any

from support.flowcase import Story


def end(task: str, ino: int, host: str = "n1") -> dict[str, Any]:
    """What the events of one end have in common."""
    return {"task": task, "ftype": "sock", "file": f"{host}:0:8:{ino}:", "host": host, "pid": ino}


def talk(story: Story, own: str, peer: str, asks: dict[str, Any], answers: dict[str, Any], size: int = 10) -> None:
    """`asks` sends `size` bytes and gets 1 back."""
    story.write(f"tcp:{own}->{peer}", None, size, **asks)
    story.read(f"tcp:{peer}->{own}", None, size, **answers)
    story.write(f"tcp:{peer}->{own}", None, 1, **answers)
    story.read(f"tcp:{own}->{peer}", None, 1, **asks)
