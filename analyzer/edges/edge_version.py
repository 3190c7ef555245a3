"""The version of what event_fold.py makes: tables of another one, and what was derived of them, are made again."""

VERSION = 19
