"""Other tracers' traces as runs of tailrace: one module a format, `formats.py` lists them, `conversion.py` converts."""
