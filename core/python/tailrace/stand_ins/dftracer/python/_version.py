"""DFTracer's module of that name, of the versions 2."""

from tailrace.dftracer import __version__ as __version__

version = __version__
__version_tuple__ = version_tuple = tuple(int(part) for part in version.split("."))
__commit_id__ = commit_id = None
