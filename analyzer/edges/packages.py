"""The package of a software file, by its path alone: graphs fold software into packages.

    /home/u/venv/lib/python3.11/site-packages/numpy/core/x.so    numpy
    /usr/lib/python3.11/json/decoder.py                          python3.11
    /usr/lib/x86_64-linux-gnu/libz.so.1.2.13                     libz
    /opt/spack/opt/linux-debian/gcc-12/hdf5-1.14-abc/lib/x       hdf5-1.14-abc
    /usr/share/perl/5.36/Config.pm                               perl5.36
    /usr/share/hmmer/x.tab                                       hmmer
    /usr/bin/hmmsearch                                           hmmsearch

Invariants: two versions of one library in one run are one package, since dynamic linkers open them under several names.
Where no rule fits, the package is the directory.
"""

from __future__ import annotations

import re

RULES = (
    re.compile(
        r"/(?:site|dist)-packages/(?P<name>[^/]+?)(?:-[0-9][^/]*\.(?:dist|egg)-info|\.(?:libs|py[cod]?|pth))?(?:/|$)"
    ),
    re.compile(r"/lib/(?P<name>python\d(?:\.\d+)?)/"),
    re.compile(
        r"/spack/(?:opt|installations)/(?:.*/)?(?P<name>[^/]+-[a-z0-9]{5,32})/(?:bin|lib|lib64|share|include|etc)/"
    ),
    re.compile(r"^/(?:nix|gnu)/store/[a-z0-9]+-(?P<name>[^/]+)/"),
    re.compile(r"^/cvmfs/(?P<name>[^/]+)/"),
    re.compile(r"/(?P<name>lib[^/]*?|ld[^/]*?|[^/]+?)(?:-\d+\.[0-9.]*)?(?:\.[a-z]+-[0-9a-z_-]+)?\.so(?:\.[0-9.]+)?$"),
    re.compile(
        r"/(?:share|lib|lib64)/(?P<name>perl|ruby|R|lua|tcl|julia|node_modules/[^/]+)(?:/(?P<version>\d[0-9.]*))?/"
    ),
    re.compile(r"/(?:share|lib|lib64|libexec|etc)/(?P<name>[^/]+)/"),
    re.compile(r"/(?:s?bin)/(?P<name>[^/]+)$"),
)


def package(path: str) -> str:
    """The package of a software file."""
    for rule in RULES:
        match = rule.search(path)
        if match:
            parts = match.groupdict()
            return str(parts["name"]) + (parts.get("version") or "")
    return path.rsplit("/", 1)[0] or "/"
