"""`tailrace stage`: one stage of a run (group.py)."""

from tailrace.cli.group import command_of

command = command_of("stage")
