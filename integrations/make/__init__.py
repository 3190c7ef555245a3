"""Tracing for GNU make: a makefile to read last, which gives each target's recipe its tags and declares prerequisites.

tailrace run -o run -- make -f Makefile -f "$(tailrace adapter make)" -j 4

tailrace.mk    sets SHELL and .SHELLFLAGS, which make expands for each line of a recipe
sh             the shell that make then starts: sets the tags, says that the target's recipe runs, and executes the
               makefile's own shell
begin.py       once a make: `tailrace adapter make --begin` declares what make may do
plan.py        that, by `make -pn`
"""
