"""Threads that share every object: no crash, no deadlock, no torn plan, and the interpreter goes on meanwhile."""

import sys
import threading
import time

import numpy as np

import pagelift


def together(*works):
    """Runs each work in a thread, and raises what one of them raised."""
    failed, start = [], threading.Barrier(len(works))

    def run(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failed:
        raise failed[0]


def test_threads_share_one_launcher_and_one_plan(world):
    plan = pagelift.RestorePlan(world.geometry)
    groups = [pagelift.ImportGroup(group.key, [1], [1]) for group in world.groups]
    import_ = pagelift.Import(pagelift.PromptSpan(9), groups)
    plan.lift(import_)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, slots=64)
    tickets, refused = [], []

    def stage():
        for _ in range(200):
            try:
                tickets.append(launcher.stage(plan))
            except pagelift.RingFullError as full:
                refused.append(full)
                launcher.launch()

    def launch():
        for _ in range(200):
            launcher.launch()
            launcher.counters()

    def fill():
        for _ in range(200):
            plan.clear()
            try:
                plan.lift(import_)
            except pagelift.PlanError as twice:
                assert twice.kind == "WrittenTwice"
            repr(plan)

    together(stage, stage, launch, fill, fill)
    launcher.launch()
    assert len(set(tickets)) == len(tickets) and sorted(t.number for t in tickets) == list(range(1, len(tickets) + 1))
    assert launcher.state(max(tickets, key=lambda ticket: ticket.number)) == "done"


def test_threads_come_and_go_with_regions_launchers_and_closes(world):
    plan = pagelift.RestorePlan(world.geometry)
    launchers = [pagelift.Launcher.bind(world.backend, world.memory, plan) for _ in range(2)]

    def regions():
        for _ in range(100):
            region = world.memory.adopt(world.backend, "device", np.zeros(64, np.uint8))
            world.memory.write(region, 0, b"abc")
            assert world.memory.read(region, 0, 3) == b"abc"
            world.memory.release(region)

    def use():
        for _ in range(100):
            for launcher in launchers:
                try:
                    launcher.state(launcher.stage(plan))
                    launcher.launch()
                    launcher.wait()
                except pagelift.LaunchError as error:
                    assert error.kind in ("Closed", "RingFull")

    def close():
        time.sleep(0.01)
        launchers[1].close()

    together(regions, regions, use, use, close)
    assert len(world.memory) == 8


def test_reservations_are_shared(world):
    reservations = pagelift.Reservations(world.geometry, 4)
    groups = [pagelift.ImportGroup(group.key, [1], [1]) for group in world.groups]
    import_ = pagelift.Import(pagelift.PromptSpan(9), groups)
    held = []

    def reserve():
        for _ in range(200):
            try:
                import_id = reservations.reserve(import_)
            except pagelift.PlanError as error:
                assert error.kind == "Reserved"
                continue
            held.append(import_id)
            reservations.release(import_id)

    together(reserve, reserve, reserve)
    assert len(reservations) == 0 and len(set(held)) == len(held) > 0


def test_what_a_registry_kept_goes_with_it(cpu):
    """In the thread that has let it go: another one may have locks when it takes the interpreter back."""
    busy, ended, stop = pagelift.Registry(), [], threading.Event()
    region, data = busy.allocate(cpu, "host", 1 << 12), bytes(1 << 12)

    class Owner(np.ndarray):
        def __del__(self):
            ended.append(threading.get_ident())

    def use():
        while not stop.is_set():
            busy.write(region, 0, data)

    def let_go():
        try:
            for _ in range(20):
                memory = pagelift.Registry()
                for _ in range(500):
                    memory.adopt(cpu, "host", np.zeros(64, np.uint8).view(Owner))
                del memory
        finally:
            stop.set()
        assert len(ended) == 20 * 500 and set(ended) == {threading.get_ident()}

    together(use, let_go)


def test_the_interpreter_goes_on_while_a_launch_copies(cpu):
    """Another thread of Python gets its turn while one launch copies 128 MiB."""
    rows, width = 1 << 12, 1 << 15
    memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
    arrays = np.zeros((rows, width), np.uint8), np.zeros((rows, width), np.uint8)
    layout, sides = pagelift.PagedLayout(rows, [("kv", width)]), []
    for place, array in zip(("host", "device"), arrays, strict=True):
        region = memory.adopt(cpu, place, array)
        sides.append(pagelift.SideSpec.packed(builder.pool(place, place, 1, [region]), [region], [0], array.nbytes, layout))
    group = builder.group("kv", layers=1, landing="host", lift="tail", host=sides[0], device=sides[1])
    plan = pagelift.RestorePlan(builder.build())
    plan.lift(pagelift.Import(pagelift.PromptSpan(rows), [pagelift.ImportGroup(group, [0], [0])]))
    launcher = pagelift.Launcher.bind(cpu, memory, plan)
    turns, stop = [0], False

    def take_turns():
        while not stop:
            turns[0] += 1
            time.sleep(0)

    # Nobody is made to give the interpreter away: what the other thread gets, this one has released.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    other = threading.Thread(target=take_turns)
    other.start()
    try:
        for _ in range(50):
            launcher.stage(plan)
            before = turns[0]
            launcher.launch()
            during = turns[0] - before
            if during:
                break
    finally:
        stop = True
        sys.setswitchinterval(interval)
        other.join()
    assert during
