"""The connections between sockets as channels, one per direction: what one end sends, the other one receives.

Each end of a connection is a separate file (a socket and its peer have different inodes); the core names it by both
ends (docs/trace-format.md, "Sockets"). This module turns an end's writes into writes of the channel own -> peer, and
its reads into reads of the channel peer -> own, so that the channel has writers and readers as a pipe has.

    tcp:A->B, sctp:A->B     two ends are one connection if they name the same addresses in opposite order. An address
                            pair is reused after a connection is closed: the ends of a pair are matched in the order
                            in which they appear, and an end whose side is taken begins the next connection. That is
                            sound since no address pair is in use twice at a time, nor before the socket of the
                            earlier connection was closed at both ends (RFC 9293, 3.6.1)
    unix:[a]->[b]           by the inodes; one end's name is enough
    udp:A->B, unix-dgram:   no connection: a message goes to the channel of its destination, from any sender, and is
                            read from the channel of the socket's own address. Each event has these addresses, so
                            `datagrams` does this before events are summed up

Loopback addresses and unix sockets are local to a host. An end whose other end wasn't traced is a channel, too: with
only readers, or only writers, named by the address.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.batch import Batch
from tailrace.analyzer.edges.edge_table import READ, EdgeTable, aliases_of
from tailrace.analyzer.util import grouping

ADDRESSES = re.compile(r"(tcp|sctp)(@\d+)?:(.+)->(.+)", re.DOTALL)
INODES = re.compile(r"unix:\[(\d+)\]->\[(\d+|\?)\]( .*)?", re.DOTALL)
DATAGRAM = re.compile(r"(udp|unix-dgram)(@\d+)?:((?:(?!->).)+)->((?:(?!->).)+)", re.DOTALL)
LOOPBACK = re.compile(r"127\.|\[0:0:0:0:0:0:0:1\]:")
ANY = re.compile(r"(0\.0\.0\.0|\[0:0:0:0:0:0:0:0\]):")
USUAL = re.compile(r"(127\.0\.0\.1|\[0:0:0:0:0:0:0:1\]):")
"""The default loopback addresses of a message to this host."""


@dataclass(frozen=True)
class _End:
    """One end of a connection: the code of its file, the connection's key, the end's own name and its peer's."""

    file: int
    key: tuple[str, ...]
    own: str
    peer: str
    first_ns: int
    last_ns: int
    form: str
    """The name of a channel, with {0} for the sender and {1} for the receiver."""


# --- datagrams -------------------------------------------------------------------------------------------------------


def peer_address(path: str) -> str:
    """The address of the other end in a socket's name; the name itself where there is none."""
    if found := ADDRESSES.fullmatch(path):
        return str(found[4])
    found = INODES.fullmatch(path)
    return str(found[3] or path).strip() if found else path


def ends(path: str) -> tuple[str, str]:
    """The address of a connection's own end and of the other one in a socket's name; "" twice where there is none."""
    found = ADDRESSES.fullmatch(path)
    return (str(found[3]), str(found[4])) if found else ("", "")


def datagrams(events: Batch) -> Batch:
    """The events with `file` and `path` of each message replaced by its destination's channel."""
    text = events.text
    at = np.flatnonzero(text["ftype"].isin({"sock"}) & (text["dir"].code > 0))
    if len(at) == 0:
        return events
    keys = [text[name] for name in ("host", "path", "dir")]
    code, first = grouping.numbered(grouping.pack(*(column.code[at] for column in keys)))
    found = [_destination(*key) for key in zip(*(column.at(at[first]) for column in keys), strict=True)]
    moved = np.array([channel is not None for channel in found], dtype=np.bool_)[code]
    rows, of_row = at[moved], code[moved]
    changed = {}
    for place, name in enumerate(("file", "path")):
        names = np.array(["" if channel is None else channel[place] for channel in found], dtype=object)
        changed[name] = text[name].put(rows, names[of_row])
    return dataclasses.replace(events, text={**text, **changed})


def _destination(host: str, path: str, direction: str) -> tuple[str, str] | None:
    """(identity, name) of the channel of a message; None for no datagram, or one without a destination."""
    match = DATAGRAM.fullmatch(path)
    if match is None:
        return None
    protocol, namespace, own, peer = match.groups()
    to = own if direction == "r" else peer
    if to == "*":
        return None
    if protocol == "unix-dgram":
        return f"{protocol}:{host}:{to}:", f"{protocol}:{to}"
    from_here = peer == "*" or LOOPBACK.match(peer) is not None
    if USUAL.match(to) or (direction == "r" and from_here and ANY.match(to)):
        port = to.rsplit(":", 1)[-1]
        return f"{protocol}:{host}{namespace or ''}:{port}:", f"{protocol}:localhost:{port}"
    scope = host + (namespace or "") if LOOPBACK.match(to) or ANY.match(to) else ""
    return f"{protocol}:{scope}:{to}:", f"{protocol}:{to}"


# --- connections -----------------------------------------------------------------------------------------------------


def join(table: EdgeTable) -> EdgeTable:
    """The edge table with the accesses of connected sockets moved to channels. Codes of files stay; channels get the
    codes after those."""
    ends = _ends(table)
    if not ends:
        return table
    first_code = len(table.files)
    names: list[str] = []
    aliases: list[tuple[int, str, int, int]] = []
    code_of: dict[tuple[str, ...], int] = {}
    channel = np.full((2, first_code), -1, dtype=np.int64)
    for end, connection in _numbered(ends):
        for direction in range(2):
            sender, receiver = (end.peer, end.own) if direction == READ else (end.own, end.peer)
            key = (*end.key, str(connection), sender, receiver)
            code = code_of.setdefault(key, first_code + len(names))
            if code == first_code + len(names):
                names.append("|".join(key) + ":")
            channel[direction, end.file] = code
            aliases.append((code, end.form.format(sender, receiver), end.first_ns, end.last_ns))
    bursts = table.bursts
    moved = channel[bursts["dir"].to_numpy(), bursts["file"].to_numpy()]
    file = np.where(moved >= 0, moved, bursts["file"].to_numpy())
    new = aliases_of(aliases)
    seen = new.groupby(["file", "path"], as_index=False).agg(first_ns=("first_ns", "min"), last_ns=("last_ns", "max"))
    more = pd.DataFrame({"file": np.array(names, dtype=object), "ftype": "sock"})
    return dataclasses.replace(
        table,
        files=pd.concat([table.files, more], ignore_index=True),
        aliases=pd.concat([table.aliases, seen], ignore_index=True),
        bursts=bursts.assign(file=file),
    )


def _ends(table: EdgeTable) -> list[_End]:
    """The ends of all connections, in the order in which they appear."""
    sockets = (table.files["ftype"] == "sock").to_numpy()
    seen = table.aliases[sockets[table.aliases["file"].to_numpy(dtype=np.int64)]]
    names = table.files["file"].to_numpy()
    times = seen.groupby("file").agg(first_ns=("first_ns", "min"), last_ns=("last_ns", "max"))
    first, last = times["first_ns"].to_dict(), times["last_ns"].to_dict()
    ends: dict[int, _End] = {}
    code_of = {str(names[file]): int(file) for file in first}
    # A socket that was connected several times gets the name of its last connection.
    for row in seen.sort_values("last_ns", kind="stable").itertuples():
        file, path = int(row.file), str(row.path)
        span = (int(first[file]), int(last[file]))
        inet = ADDRESSES.fullmatch(path)
        if inet:
            protocol, namespace, own, peer = inet.groups()
            local = LOOPBACK.match(own) is not None
            scope = str(names[file]).split(":", 1)[0] + (namespace or "") if local else ""
            if own != peer:
                low, high = sorted((own, peer))
                key = (protocol, scope, low, high)
                ends[file] = _End(file, key, own, peer, *span, f"{protocol}:{{0}}->{{1}}")
        unix = INODES.fullmatch(path)
        if unix and unix[2] != "?":
            _join_unix(ends, code_of, str(names[file]), unix, first, last)
    return sorted(ends.values(), key=lambda end: (end.first_ns, end.file))


def _join_unix(
    ends: dict[int, _End],
    code_of: dict[str, int],
    identity: str,
    match: re.Match[str],
    first: dict[int, int],
    last: dict[int, int],
) -> None:
    """Adds both ends of a unix socket whose name has its peer. Only the accepting side may know its peer."""
    host_and_device = identity.rsplit(":", 2)[0]
    low, high = sorted((match[1], match[2]), key=int)
    form = "unix:[{0}]->[{1}]" + (match[3] or "").replace("{", "{{").replace("}", "}}")
    for own, peer in ((match[1], match[2]), (match[2], match[1])):
        file = code_of.get(f"{host_and_device}:{own}:")
        if file is not None:
            ends[file] = _End(
                file, ("unix", host_and_device, low, high), own, peer, int(first[file]), int(last[file]), form
            )


def _numbered(ends: list[_End]) -> list[tuple[_End, int]]:
    """Each end with the number of its connection among those of the same key; a connection has at most two ends."""
    out: list[tuple[_End, int]] = []
    open_sides: dict[tuple[str, ...], tuple[int, set[str]]] = {}
    for end in ends:
        number, sides = open_sides.get(end.key, (0, set()))
        if end.own in sides:
            number, sides = number + 1, set()
        open_sides[end.key] = (number, sides | {end.own})
        out.append((end, number))
    return out
