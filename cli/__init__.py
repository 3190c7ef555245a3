"""The `tailrace` command: one short file a subcommand, over the rooms' public functions. main.py has the table."""
