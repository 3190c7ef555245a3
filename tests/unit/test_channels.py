"""Sockets as channels of one direction: which ends are one connection, and where datagrams go."""

from __future__ import annotations

from support.flowcase import Story
from support.socket_stories import end, talk
from tailrace.analyzer.model import dataflow, graphs


def flows(story: Story, partitions: int = 1) -> dict[tuple[str, str], int]:
    """(producer task, consumer task) -> bytes."""
    m = dataflow.model(story.run(partitions))
    _, activities = dataflow.activities(m, "task")
    rows = dataflow.flow_table(m, "task")
    names = activities["task"].to_numpy()
    sums = rows[rows["producer"] >= 0].groupby(["producer", "consumer"])["bytes"].sum()
    return {(str(names[p]), str(names[c])): int(moved) for (p, c), moved in sums.items()}


class TestConnections:
    def test_each_direction_is_a_channel(self) -> None:
        story = Story()
        talk(story, "10.0.0.1:4000", "10.0.0.2:80", end("ask", 5), end("answer", 5, "n2"))
        for partitions in (1, 4):
            assert flows(story, partitions) == {("ask", "answer"): 10, ("answer", "ask"): 1}

    def test_addresses_that_come_again_are_another_connection(self) -> None:
        story = Story()
        for i in range(3):
            asks, answers = end(f"ask{i}", 10 + i), end(f"answer{i}", 20 + i)
            talk(story, "127.0.0.1:4000", "127.0.0.1:80", asks, answers, size=100 + i)
        expected: dict[tuple[str, str], int] = {}
        for i in range(3):
            expected.update({(f"ask{i}", f"answer{i}"): 100 + i, (f"answer{i}", f"ask{i}"): 1})
        assert flows(story, 3) == expected

    def test_the_answering_end_may_be_recorded_first(self) -> None:
        """A server waits in accept before each connection."""
        story = Story()
        one, two, asks, again = end("one", 20), end("two", 21), end("ask", 10), end("again", 11)
        own, peer = "127.0.0.1:4000", "127.0.0.1:80"
        for at_ms, socket in ((0, one), (5, two)):
            story.event("accept", f"tcp:{peer}->{own}", at_ms, **socket)
        for at_ms, asker, answerer in ((1, asks, one), (10, again, two)):
            story.event("connect", f"tcp:{own}->{peer}", at_ms, **asker)
            story.write(f"tcp:{own}->{peer}", None, 7, at_ms=at_ms + 0.5, **asker)
            story.read(f"tcp:{peer}->{own}", None, 7, at_ms=at_ms + 1, **answerer)
        assert flows(story) == {("ask", "one"): 7, ("again", "two"): 7}

    def test_loopback_is_a_host_s_and_a_namespace_s_own(self) -> None:
        for scope in ((end("a", 1), end("b", 2, "n2"), "tcp", "tcp"), (end("a", 1), end("b", 2), "tcp@1", "tcp@2")):
            story = Story()
            story.write(f"{scope[2]}:127.0.0.1:1->127.0.0.1:2", None, **scope[0])
            story.read(f"{scope[3]}:127.0.0.1:2->127.0.0.1:1", None, **scope[1])
            assert flows(story) == {}

    def test_a_reused_descriptor_number_is_another_channel(self) -> None:
        """A descriptor's number is used again for a connection to another host."""
        story = Story()
        talk(story, "10.0.0.1:4000", "10.0.0.2:80", end("ask", 5), end("first", 6))
        talk(story, "10.0.0.1:4001", "10.0.0.3:80", end("ask", 7), end("second", 8))
        story.read("tcp:10.0.0.3:80->10.0.0.1:4000", None, 99, **end("second", 9))
        assert flows(story) == {("ask", n): 10 for n in ("first", "second")} | {
            (n, "ask"): 1 for n in ("first", "second")
        }


class TestUnix:
    def test_one_end_s_name_is_enough(self) -> None:
        story = Story()
        for name in ("unix:[5]->[?] /s {x}", "socket:[5]"):
            story.write(name, None, 10, **end("ask", 5))
        story.read("unix:[6]->[5] /s {x}", None, 20, **end("answer", 6))
        assert flows(story) == {("ask", "answer"): 20}
        graph = graphs.graph(story.run(), "process")
        assert {d["path"] for _, d in graph.nodes(data=True) if d["kind"] == "file"} == {"unix:[5]->[6] /s {x}"}

    def test_inodes_are_a_host_s_own(self) -> None:
        story = Story()
        story.write("socket:[5]", None, 10, **end("a", 5))
        story.read("unix:[6]->[5]", None, 10, **end("b", 6, "n2"))
        assert flows(story) == {}


class TestDatagrams:
    def test_a_message_goes_to_its_destination(self) -> None:
        story = Story()
        sender = end("send", 5)
        for port in (1, 2):
            story.write(f"udp@3:0.0.0.0:9->127.0.0.1:{port}", None, 10 * port, **sender)
            story.read(f"udp@3:0.0.0.0:{port}->*", None, 10 * port, **end(f"take{port}", 6 + port))
        assert flows(story, 2) == {("send", "take1"): 10, ("send", "take2"): 20}

    def test_bytes_from_another_host_have_no_local_sender(self) -> None:
        story = Story()
        story.write("udp@3:0.0.0.0:9->127.0.0.1:1", None, 10, **end("send", 5))
        story.read("udp@3:0.0.0.0:1->10.0.0.7:9", None, 10, **end("take", 6))
        assert flows(story) == {}

    def test_paths_are_a_host_s_own(self) -> None:
        story = Story()
        story.write("unix-dgram:*->/run/log", None, 10, **end("send", 5))
        for host in ("n1", "n2"):
            story.read("unix-dgram:/run/log->*", None, 10, **end(f"take-{host}", 6, host))
        assert flows(story) == {("send", "take-n1"): 10}
