"""The `tailrace` command: one file per subcommand. main.py has the table of them."""
