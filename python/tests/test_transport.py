"""Hand-offs over NIXL: between two processes, and inside of one; faults, and what makes no sense."""

import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pagelift

transport = pytest.importorskip("pagelift.transport", exc_type=ImportError)

import test_lifecycle
from handoff import IMPORTED, OTHER, SECRET, SEED, Prefill, has, lifecycle_side, of_group, until, world_side


class Both:
    """P and D in one process, with their agents."""

    count = 0

    def __init__(self, ours=None, theirs=None, secret=SECRET, most_exports=8, presence_interval=5.0, **options):
        Both.count += 1
        self.theirs = theirs or world_side(1, "device", SEED)
        self.ours = ours or world_side(1, "host", OTHER)
        self.agents = [side.join(f"{name}-{Both.count}") for name, side in (("p", self.theirs), ("d", self.ours))]
        (p, offer), (d, own) = self.agents
        self.producer = transport.Producer(p, offer, "127.0.0.1:0", SECRET, most_exports=most_exports, **options)
        self.consumer = transport.Consumer(d, own, self.producer.address, secret, presence_interval=presence_interval)

    def until(self, done):
        return until(done, self.producer, self.consumer)

    def ask(self, request=7, **options):
        """Begins an import, until P's engine is asked for it."""
        self.consumer.begin(request, IMPORTED, self.ours.tables, **options)
        asked = self.until(lambda said: any(own["event"] == "asked" and own["ask"].request == request for own in said))
        return next(own["ask"] for own in asked if own["event"] == "asked" and own["ask"].request == request)

    def close(self):
        for own in (self.consumer, self.producer, *(agent for agent, _ in self.agents)):
            own.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def of(said, event):
    return [own for own in said if own["event"] == event]


def check(ours, theirs):
    """D's host pools have P's rows at the blocks that were read, and are as they were everywhere else."""
    expected = world_side(1, "host", OTHER).world.snapshot()
    for group in ours.world.groups:
        source = next(own for own in theirs.world.groups if own.name == group.name)
        pages, blocks = theirs.tables[group.name]["blocks"], ours.tables[group.name]["blocks"]
        host, _ = expected[group.name]
        for page, block in zip(pages, blocks, strict=True):
            for layer in range(group.layers):
                group.copy_rows(source.device[layer, page], host[block, layer], range(group.rows))
    ours.world.check(expected)


@pytest.mark.parametrize("notices", ["control", "transfer"])
def test_every_kind_of_group_arrives_between_two_processes(notices):
    with Prefill(world_side, 1, "device", SEED) as prefill:
        ours = world_side(1, "host", OTHER)
        agent, offer = ours.join("decode")
        consumer = transport.Consumer(agent, offer, prefill.address, SECRET, most_bytes=2000, notices=notices)
        consumer.begin(7, IMPORTED, ours.tables)
        said = until(has("ended"), consumer)
        assert [own["event"] for own in said] == ["paired", "begun", "ended"]
        theirs = world_side(1, "device", SEED)
        assert said[1]["reads"] > 4 and said[1]["bytes"] > 0 and said[1]["exported"].keys() == theirs.tables.keys()
        end = said[2]
        assert (end["request"], end["landed"], end["awaited"], end["why"], end["lifecycle"]) == (7, True, True, None, None)
        check(ours, theirs)
        assert prefill.until("freed")[-1] == ("freed", "read")
        # With nothing to read P is told at once.
        consumer.begin(8, IMPORTED, {})
        assert until(has("ended"), consumer)[-1]["awaited"] is False
        assert prefill.until("freed")[-1] == ("freed", "read")
        counters = consumer.counters()
        assert (counters["begun"], counters["landed"], counters["failed"]) == (2, 2, 0)
        consumer.leave()
        assert until(lambda _: consumer.is_left, consumer) == []
        consumer.close()
        agent.close()
        prefill.finish()


class Decode(test_lifecycle.Engine):
    """The engine of the lifecycle's tests, whose blocks another process computes."""

    def __init__(self, backend, address):
        super().__init__(backend)
        block, width = test_lifecycle.BLOCK, test_lifecycle.WIDTH
        facts = [transport.GroupFacts("kv", "host", segments={"kv": ("u8", [width])})]
        self.agent = transport.Agent("decode")
        offer = transport.Offer.of(self.geometry, transport.Exchange(block), facts, self.memory)
        self.agent.register(offer)
        self.consumer = transport.Consumer(self.agent, offer, address, SECRET)
        self.wanted = transport.WantedBy(self.lifecycle, self.geometry, self.frames, block_tokens=block)

    def do(self, effect):
        match effect:
            case {"effect": "read", "request": request, "first": first, "end": end}:
                self.seen.append("read")
                tables = self.wanted.tables(request, first, end)
                self.events.append(transport.posted(request, tables))
                number = next(name for name, own in self.requests.items() if own == request)
                self.consumer.begin(number, 6, tables, id=request)
            case _:
                super().do(effect)

    def turn(self):
        super().turn()
        self.events += [own["lifecycle"] for own in self.consumer.poll() if own.get("lifecycle")]


def test_a_lifecycle_lifts_what_another_process_computed(cpu):
    with Prefill(lifecycle_side) as prefill:
        engine = Decode(cpu, prefill.address)
        engine.admit(1, 6)
        # P is another process: a turn takes less time than its answer.
        engine.until(lambda: "lifted" in engine.seen, turns=200_000)
        assert engine.view(1)["stage"] == "lifted" and "read" in engine.seen
        assert prefill.until("freed")[-1] == ("freed", "read")
        engine.generate(1, 6)
        engine.rest()
        # The prompt's rows, and those after them, in the host pool.
        engine.check(1, engine.view(1)["blocks"], 11)
        with pytest.raises(transport.TransportError) as over:
            engine.wanted.tables({"slot": 3, "generation": 9}, 0, 1)
        assert over.value.kind == "NoSuchRequest"
        engine.consumer.close()
        engine.agent.close()
        prefill.finish()


def test_a_producer_that_is_killed_is_lost():
    with Prefill(world_side, 1, "device", SEED, grants=False) as prefill:
        ours = world_side(1, "host", OTHER)
        agent, offer = ours.join("decode")
        consumer = transport.Consumer(agent, offer, prefill.address, SECRET)
        consumer.begin(7, IMPORTED, ours.tables, id={"slot": 0, "generation": 1})
        until(lambda _: prefill.pipe.poll() and prefill.next()[0] == "asked", consumer)
        prefill.process.kill()
        said = until(has("ended"), consumer)
        lost, ended = of(said, "lost")[0], of(said, "ended")[0]
        assert isinstance(lost["why"], transport.ControlError) and lost["why"].kind in ("Ended", "Stream")
        assert not ended["landed"] and isinstance(ended["why"], transport.ControlError)
        # Nothing was read: what is valid is what was here before.
        assert ended["valid"] == {"main": 0, "index": 0, "ring": 0, "state": 0}
        assert ended["lifecycle"] == {
            "event": "read", "request": {"slot": 0, "generation": 1}, "rank": 0, "part": 0, "read": {"failed": {"valid": 0}}
        }
        assert consumer.over.kind == lost["why"].kind and repr(consumer) == "Consumer(lost, 0 imports in flight)"
        with pytest.raises(transport.ControlError):
            consumer.begin(8, IMPORTED, {})
        consumer.close()
        agent.close()
        check_untouched(ours)


def check_untouched(ours):
    ours.world.check(world_side(1, "host", OTHER).world.snapshot())


def test_who_lacks_the_secret_hears_nothing():
    with Both(secret=b"another secret of enough bytes") as both:
        said = both.until(lambda said: has("lost")(said) and has("closed")(said))
        for event in ("lost", "closed"):
            why = of(said, event)[0]["why"]
            assert isinstance(why, transport.ControlError) and why.kind in ("Forged", "Ended", "Stream")
        assert any(own["why"].kind == "Forged" and "same secret" in str(own["why"]) for own in said)
        assert not both.consumer.is_paired
        check_untouched(both.ours)


def test_blocks_that_mean_something_else_are_refused_by_name():
    ours = world_side(1, "host", OTHER)
    ours.facts[0] = of_group(ours.world.main, "host", "e4m3")
    with Both(ours=ours) as both:
        said = both.until(has("lost"))
        why = of(said, "lost")[0]["why"]
        assert isinstance(why, transport.SchemaError) and why.kind == "Differs"
        field = "groups.main.segments.latent.element"
        assert why.mismatches == [(field, '"e4m3"', '"u8"')]
        assert all(word in str(why) for word in (field, "e4m3", "u8"))
        # It goes through pipes as it is.
        again = pickle.loads(pickle.dumps(why))
        assert (type(again), str(again), again.mismatches) == (type(why), str(why), why.mismatches)
        with pytest.raises(transport.SchemaError) as error:
            both.agents[1][1].compare(both.agents[0][1])
        assert error.value.mismatches == why.mismatches


def test_an_engine_may_refuse_or_take_its_time():
    with Both() as both:
        first, second = both.ask(1), both.ask(2)
        assert (first.request, first.imported, first.rank) == (1, IMPORTED, 0) and repr(first) == "Ask(request 1, 40 tokens, rank 0)"
        assert first == first and first != second and len({first, second, first}) == 2
        both.producer.refuse(first, "not computed here")
        both.producer.grant(second, both.theirs.tables)
        for answer in (lambda: both.producer.grant(first, {}), lambda: both.producer.refuse(second, "no")):
            with pytest.raises(transport.TransportError) as twice:
                answer()
            assert twice.value.kind == "NotAsked"
        said = both.until(lambda said: len(of(said, "ended")) == 2 and has("freed")(said))
        refused, landed = sorted(of(said, "ended"), key=lambda own: own["request"])
        assert not refused["landed"] and refused["why"].kind == "Refused" and "not computed here" in str(refused["why"])
        assert landed["landed"] and of(said, "refused")[0]["ask"] == first and of(said, "granted")[0]["ask"] == second
        freed = of(said, "freed")[0]
        assert (freed["ask"], freed["end"], freed["export"]) == (second, "read", of(said, "granted")[0]["export"])
        check(both.ours, both.theirs)
        # What P has not exported is not read.
        third = both.ask(3)
        both.producer.grant(third, {"main": [0]})
        said = both.until(has("freed"))
        assert of(said, "ended")[0]["why"].kind in ("NotExported", "NoSuchGroup") and of(said, "freed")[0]["end"] == "failed"
        # The client goes away before an answer.
        both.ask(4)
        both.consumer.cancel(4)
        assert of(both.until(has("ended")), "ended")[0]["why"].kind == "Cancelled"
        assert both.producer.held == 0 and both.producer.counters()["freed"] == 2


def test_an_ask_stays_the_same_while_a_decoder_says_that_it_waits():
    with Both(presence_interval=0.02) as both:
        ask = both.ask(1)
        start = time.monotonic()
        said = both.until(lambda _: time.monotonic() - start > 0.3)
        assert not of(said, "asked") and not of(said, "withdrawn")
        both.producer.grant(ask, both.theirs.tables)
        said = both.until(lambda said: has("ended")(said) and has("freed")(said))
        assert of(said, "ended")[0]["landed"] and of(said, "granted")[0]["ask"] == ask
        check(both.ours, both.theirs)


def test_notices_go_over_the_connection_unless_said_otherwise():
    with Both() as both:
        # Whichever producer of an agent asks takes what came over the transport; it has no such export.
        p, offer = both.agents[0]
        other = transport.Producer(p, offer, "127.0.0.1:0", SECRET)
        both.producer.grant(both.ask(1), both.theirs.tables)
        until(has("granted"), both.producer)
        until(has("ended"), both.consumer)
        start = time.monotonic()
        assert until(lambda _: time.monotonic() - start > 0.3, other) == []
        said = until(has("freed"), both.producer)
        assert of(said, "freed")[0]["end"] == "read" and other.counters()["unknown"] == 0
        other.close()


def test_a_decoder_that_leaves_is_heard_to_the_end():
    with Both() as both:
        granted, waiting = both.ask(1), both.ask(2)
        both.producer.grant(granted, both.theirs.tables)
        both.until(has("ended"))
        assert not both.consumer.is_left and repr(both.consumer) == "Consumer(paired, 1 imports in flight)"
        both.consumer.leave()
        # P has not closed the connection yet.
        assert not both.consumer.is_left and repr(both.consumer) == "Consumer(leaving, 1 imports in flight)"
        with pytest.raises(transport.TransportError) as over:
            both.consumer.begin(3, IMPORTED, {})
        assert over.value.kind == both.consumer.over.kind == "Closed"
        said = both.until(lambda _: both.consumer.is_left)
        assert repr(both.consumer) == "Consumer(left, 0 imports in flight)"
        # It was not lost: what waited has ended, what was read is freed by D's word, and P knows that D is done.
        assert not has("lost")(said) and of(said, "ended")[0]["request"] == 2
        said += until(has("closed"), both.producer) if not has("closed")(said) else []
        assert of(said, "closed")[0]["why"] is None and of(said, "withdrawn")[0]["ask"] == waiting
        both.consumer.leave()
        both.consumer.close()
        with pytest.raises(transport.TransportError) as closed:
            both.consumer.leave()
        assert closed.value.kind == "Closed"
        assert both.producer.counters()["freed"] == 1 and both.producer.counters()["expired"] == 0


def test_what_a_lost_decoder_asked_for_is_withdrawn_or_expires():
    with Both(lease=1.0, heartbeat=0.1, margin=0.1) as both:
        waiting, granted = both.ask(1), both.ask(2)
        both.producer.grant(granted, both.theirs.tables)
        until(has("granted"), both.producer)
        both.consumer.close()
        said = until(lambda said: has("freed")(said) and has("withdrawn")(said), both.producer)
        assert of(said, "withdrawn")[0]["ask"] == waiting and of(said, "freed")[0]["end"] == "expired"
        with pytest.raises(transport.TransportError) as gone:
            both.producer.grant(waiting, {})
        assert gone.value.kind == "NotAsked"
        both.producer.stop()
        assert both.producer.poll() == [] and both.producer.is_finished


def test_memory_is_held_while_an_agent_has_it(cpu):
    both = Both()
    region = both.ours.world.main.regions["host"]
    memory = both.ours.memory
    free = memory.allocate(cpu, "host", 64)
    memory.release(free)

    def refused():
        with pytest.raises(pagelift.RegistryError) as lent:
            memory.release(region)
        assert lent.value.kind == "Lent" and "close the agent" in str(lent.value)

    refused()
    both.agents[1][0].close()
    # The consumer has the agent still.
    refused()
    both.consumer.close()
    memory.release(region)
    with pytest.raises(pagelift.RegistryError) as released:
        transport.Agent("late").register(both.agents[1][1])
    assert released.value.kind == "Released"
    with pytest.raises(pagelift.RegistryError) as unregistered:
        both.ours.offer()
    assert unregistered.value.kind == "Unregistered"
    both.close()
    # An agent that nobody closes holds its memory for as long as it lives.
    side = world_side(2, "host")
    agent, offer = side.join("forgotten")
    region = side.world.main.regions["host"]
    with pytest.raises(pagelift.RegistryError):
        side.memory.release(region)
    del agent, offer
    side.memory.release(region)


def test_an_agent_is_let_alone_inside_of_a_replay(cpu):
    """Another thread may have it, and wait with it for what the replay has."""
    engine, side = test_lifecycle.Engine(cpu), world_side(1, "host", OTHER)
    agent, offer = side.join("replays")
    producer = transport.Producer(agent, offer, "127.0.0.1:0", SECRET)
    consumer = transport.Consumer(agent, offer, producer.address, SECRET)
    ends = [
        lambda: transport.Producer(agent, offer, "127.0.0.1:0", SECRET),
        lambda: transport.Consumer(agent, offer, producer.address, SECRET),
    ]
    calls = [lambda: repr(agent), agent.metadata, agent.close, lambda: agent.register(offer), lambda: repr(consumer)]
    for call in (*calls, *ends, consumer.poll, consumer.close, producer.close):
        with pytest.raises(pagelift.LaunchError) as inside:
            engine.runner.replay(call)
        assert inside.value.kind == "InsideReplay"
    for own in (consumer, producer, agent):
        own.close()


def test_what_nixl_has_refused_is_not_registered(cpu):
    """Two registries have the same bytes, of which the second has some more in a region of its own."""
    array, more = np.zeros((4, 16), np.uint8), np.zeros((4, 16), np.uint8)

    def offer_of(*arrays):
        memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
        regions = [memory.adopt(cpu, "host", own) for own in arrays]
        for number, region in enumerate(regions):
            pool = builder.pool(f"pool {number}", "host", 4, [region])
            side = pagelift.SideSpec.packed(pool, [region], [0], 16, pagelift.PagedLayout(2, [("kv", 8)]))
            builder.group(f"kv {number}", layers=1, landing="host", lift="none", host=side)
        facts = [transport.GroupFacts(f"kv {number}", "host", segments={"kv": ("u8", [8])}) for number in range(len(arrays))]
        return memory, regions, transport.Offer.of(builder.build(), transport.Exchange(2), facts, memory)

    agent = transport.Agent("refused")
    first, regions, offer = offer_of(array)
    agent.register(offer)
    second, others, refused = offer_of(more, array)
    with pytest.raises(transport.NixlError) as twice:
        agent.register(refused)
    assert twice.value.kind == "RegisteredTwice" and repr(agent) in ('Agent("refused", 1 regions)', 'Agent("refused", 2 regions)')
    for side in (
        lambda: transport.Producer(agent, refused, "127.0.0.1:0", SECRET),
        lambda: transport.Consumer(agent, refused, "127.0.0.1:1", SECRET),
    ):
        with pytest.raises(transport.NixlError) as error:
            side()
        assert error.value.kind == "NotRegistered"
    # What peers cannot read may be released; what they can may not.
    second.release(others[1])
    with pytest.raises(pagelift.RegistryError) as lent:
        first.release(regions[0])
    assert lent.value.kind == "Lent"
    transport.Producer(agent, offer, "127.0.0.1:0", SECRET).close()
    agent.close()
    first.release(regions[0])
    second.release(others[0])


def test_what_makes_no_sense_is_an_exception():
    with Both() as both:
        (p, offer), (d, own) = both.agents
        both.consumer.begin(7, IMPORTED, both.ours.tables)
        with pytest.raises(transport.TransportError, match="request 7 is in flight") as twice:
            both.consumer.begin(7, IMPORTED, {})
        assert twice.value.kind == "Twice"
        for blocks in ({"main": {"first": "x"}}, {"main": {"first": 0}}, {"main": {"first": 0, "blocks": [0], "more": 1}}):
            with pytest.raises(ValueError, match="not a table of blocks"):
                both.consumer.begin(8, IMPORTED, blocks)
        for blocks in ([1, 2], {"main": 3}, {1: [2]}, {"main": ["a"]}):
            with pytest.raises(TypeError):
                both.consumer.begin(8, IMPORTED, blocks)
        with pytest.raises(OverflowError):
            both.consumer.begin(8, IMPORTED, {"main": np.array([-1])})
        # The rank that no lifecycle has would be another one in every event.
        for rank in (64, 300):
            exchange = transport.Exchange(both.ours.block_tokens, rank=rank, tp=rank + 1)
            of_rank = transport.Offer.of(both.ours.geometry, exchange, both.ours.facts, both.ours.memory)
            with pytest.raises(transport.TransportError, match=f"of rank {rank}") as ranks:
                transport.Consumer(d, of_rank, both.producer.address, SECRET)
            assert ranks.value.kind == "Rank"
        with pytest.raises(ValueError, match="not a request"):
            both.consumer.begin(8, IMPORTED, {}, id={"slot": 1})
        with pytest.raises(transport.NixlError) as late:
            d.register(own)
        assert late.value.kind == "InUse"
        with pytest.raises(transport.NixlError) as foreign:
            transport.Producer(d, offer, "127.0.0.1:0", SECRET)
        assert foreign.value.kind == "NotRegistered"
        for secret, address, error in [(b"short", "127.0.0.1:0", transport.ControlError), (SECRET, "localhost", ValueError)]:
            with pytest.raises(error):
                transport.Producer(p, offer, address, secret)
        with pytest.raises(transport.TransportError, match="two heartbeats") as terms:
            transport.Producer(p, offer, "127.0.0.1:0", SECRET, lease=1.0, heartbeat=1.0)
        assert terms.value.kind == "Terms"
        for seconds in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="seconds"):
                transport.Producer(p, offer, "127.0.0.1:0", SECRET, lease=seconds)
        with pytest.raises(ValueError, match="expected one of control, transfer"):
            transport.Consumer(d, own, both.producer.address, SECRET, notices="pigeon")
        peers = transport.Offer.parse(own.to_json())
        assert peers.schema == own.schema and peers.rank == own.rank == 0
        with pytest.raises(transport.TransportError) as theirs:
            transport.Agent("x").register(peers)
        assert theirs.value.kind == "Foreign"
        for text in (b"", b"{}", own.to_json()[:-1]):
            with pytest.raises(transport.TransportError) as malformed:
                transport.Offer.parse(text)
            assert malformed.value.kind == "Malformed"
    for call in (
        both.producer.poll, both.producer.stop, lambda: both.producer.address, both.consumer.poll,
        lambda: both.consumer.begin(1, 1, {}), p.metadata, lambda: p.register(offer),
        lambda: transport.Producer(p, offer, "127.0.0.1:0", SECRET),
    ):  # fmt: skip
        with pytest.raises(transport.TransportError) as closed:
            call()
        assert closed.value.kind == "Closed"
    assert [repr(one) for one in (both.producer, both.consumer)] == ["Producer(closed)", "Consumer(closed)"]
    # Nobody is there.
    agent, offer = world_side(1, "host").join("alone")
    with pytest.raises(transport.ControlError) as nobody:
        transport.Consumer(agent, offer, "127.0.0.1:1", SECRET, connect_timeout=1.0)
    assert nobody.value.kind == "Stream"


def test_descriptions_that_cannot_be():
    side = world_side(1, "host")
    exchange, main = transport.Exchange(side.block_tokens), side.world.main
    width = main.segments[0][1]

    def refused(facts, exchange=exchange):
        with pytest.raises(transport.SchemaError) as error:
            transport.Offer.of(side.geometry, exchange, facts, side.memory)
        assert error.value.mismatches == []
        return error.value.kind

    facts = transport.GroupFacts
    assert refused([facts("mains", "host")]) == "NoSuchGroup"
    assert refused([facts("main", "host")]) == "NothingSaid"
    assert refused([facts("main", "host", segments={"latent": ("u8", [width + 1])})]) == "Shape"
    assert refused([facts("main", "host", segments={"k": ("u8", [width])}, other_segments=("u8", [width]))]) == "NoSuchSegment"
    assert refused([of_group(main, "host")] * 2) == "GroupTwice"
    assert refused([of_group(main, "host")], transport.Exchange(16, pp=2)) == "Parallel"
    assert refused([of_group(main, "host")], transport.Exchange(16, rank=2, tp=2)) == "Rank"
    for element in ("bf61", {"mixed": 1}, 3):
        with pytest.raises(ValueError, match="not a type of values"):
            facts("main", "host", other_segments=(element, [1]))
    mixed = facts("main", "host", other_segments=({"mixed": "packed"}, [width]), whole_on_every_rank=True, draft=True, live_blocks=3)
    schema = transport.Offer.of(side.geometry, transport.Exchange(16, rank=1, tp=2), [mixed], side.memory).schema
    own = schema["groups"]["main"]
    assert schema["tp"] == 2 and own["segments"]["latent"]["element"] == {"mixed": "packed"}
    assert (own["sharing"], own["draft"], own["live_blocks"], own["block_tokens"]) == ("whole", True, 3, 16)


def test_threads_may_poll_one_end():
    with Both() as both:
        both.ask(1)
        ended, errors = [], []

        def work(number):
            try:
                for _ in range(300):
                    ended.extend(of(both.consumer.poll(), "ended"))
                    for event in both.producer.poll():
                        if event["event"] == "asked":
                            both.producer.grant(event["ask"], both.theirs.tables)
                    if number == 0:
                        both.consumer.counters(), repr(both.producer)
            except Exception as error:
                errors.append(error)

        both.consumer.begin(2, IMPORTED, both.ours.tables)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        if not ended:
            ended = of(both.until(has("ended")), "ended")
        assert [own["request"] for own in ended] == [2] and ended[0]["landed"]
        check(both.ours, both.theirs)


def in_another_process(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_library_that_is_not_there_is_an_exception():
    code = """
from pagelift import transport
for call in (transport.Library.open, lambda: transport.Agent("a")):
    try:
        call()
    except transport.NixlError as error:
        print(error.kind, "pip install nixl-cu12" in str(error))
"""
    assert in_another_process(code, PAGELIFT_NIXL="/nowhere/libnixl_capi.so").split() == ["NoLibrary", "True"] * 2


def test_the_library_and_its_plugins():
    library = transport.Library.open()
    assert library.path.endswith("libnixl_capi.so") and "UCX" in library.plugins()
    with pytest.raises(transport.NixlError, match="`PIGEON`; it has .*UCX") as plugin:
        transport.Agent("a", plugin="PIGEON")
    assert plugin.value.kind == "NoPlugin"
    # Parameters reach the plugin: it refuses a number that is none.
    transport.Agent("a", parameters={"num_workers": "2"}).close()
    with pytest.raises(transport.NixlError) as parameter:
        transport.Agent("a", parameters={"num_workers": "many"})
    assert parameter.value.kind == "Call"
    for wrong in ([("num_workers", "2")], {"num_workers": 2}, {3: "2"}):
        with pytest.raises(TypeError):
            transport.Agent("a", parameters=wrong)
    agent = transport.Agent("b")
    assert agent.name == "b" and len(agent.metadata()) > 0 and repr(agent) == 'Agent("b", 0 regions)'
    agent.close()
    agent.close()
    assert repr(agent) == 'Agent("b", closed)'
