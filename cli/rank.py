"""`tailrace rank`: one rank of a run (group.py)."""

from tailrace.cli.group import command_of

command = command_of("rank")
