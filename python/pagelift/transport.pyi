from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, final

from typing_extensions import NotRequired

from . import Geometry, GroupFrames, Lifecycle, PageliftError, Registry, _Memory

# A type of values: `bf16`, `f16`, `f32`, `e4m3`, `e5m2`, `ue8m0`, `u8`, `i64`, or `{"mixed": name}`; with the shape of a row's values.
_Values = tuple[str | dict[str, str], Sequence[int]]

class _Table(TypedDict):
    first: int
    blocks: Sequence[int | None]
    digests: NotRequired[Sequence[int]]

# Blocks of each group, by position: those from position 0 on, or a dictionary that says more.
_Tables = Mapping[str, Sequence[int | None] | _Table]

class TransportError(PageliftError):
    """Anything that a hand-off refuses, or that ends one. `kind` names the case: the variant of the Rust error."""
class ControlError(TransportError):
    """The control channel cannot be used, or not any more: nobody is there, or somebody without the secret."""
class NixlError(TransportError):
    """NIXL's library is not there, or refuses something."""

class SchemaError(TransportError):
    """A description of blocks that cannot be, or is not the other side's. Field: `mismatches`, a list of `(field, ours, theirs)` with every field in which both sides differ, as text; empty where one side alone is wrong."""
    mismatches: list[tuple[str, str, str]]

@final
class Library:
    """NIXL's library, opened. `open` does what an `Agent` does first: with it a program sees at its start whether the library is there."""
    @staticmethod
    def open() -> Library:
        """Opens the library that the environment variable `PAGELIFT_NIXL` names, or the one that the system finds. Raises `NixlError`, with
        what to do, where there is none, or it lacks calls. The first answer stands.
        """
    @property
    def path(self) -> str | None:
        """Its file, where the system says."""
    @property
    def version(self) -> str | None:
        """The version of the package that it came in, where that says one."""
    def plugins(self) -> list[str]:
        """The plugins that it has. Raises `NixlError` where it does not say."""

@final
class GroupFacts:
    """What an engine says of one group: which of its sides is exchanged, and what the values are. Nothing is guessed from sizes.

    `memory` is where its main side is exchanged, `"host"` or `"device"`: P's is where it exports from, D's where it lands. `segments`
    says for each segment of a row, or part of a state, by its name what it holds: `(type, shape)`, such as `("bf16", [576])`. Types are
    `bf16`, `f16`, `f32`, `e4m3`, `e5m2`, `ue8m0`, `u8`, `i64`, and `{"mixed": name}` for a format of several, whose shape counts bytes.
    `other_segments` says the same of every segment that is not named. All of the group is on every rank where it is
    `whole_on_every_rank`; otherwise each rank has its own heads or channels. `draft` groups belong to draft layers. `live_blocks` are
    the states that a request keeps at one time. `in_blocks_of` are the tokens of its blocks, where they are others than the engine's.
    `on_device` is the GPU that it lies on, as the transport counts them; it means nothing in host memory.
    """
    def __new__(
        cls,
        name: str,
        memory: _Memory,
        *,
        segments: Mapping[str, _Values] = ...,
        other_segments: _Values | None = None,
        whole_on_every_rank: bool = False,
        draft: bool = False,
        live_blocks: int = 1,
        in_blocks_of: int | None = None,
        on_device: int = 0,
    ) -> GroupFacts: ...

@final
class Exchange:
    """What an engine says of itself: the tokens of the blocks that tables name, its tensor-parallel `rank` of `tp`, and how else it is
    parallel (`pp` stages, `pcp` and `dcp` ranks of context parallelism), of which only 1 is built. A pool may keep a block as several
    pages.
    """
    def __new__(cls, block_tokens: int, *, rank: int = 0, tp: int = 1, pp: int = 1, pcp: int = 1, dcp: int = 1) -> Exchange: ...

@final
class Offer:
    """What an engine sends to its peer before anything is read: its rank, what its blocks mean (the schema, equal on both sides), and
    where they lie (never compared). `Offer.of` makes one of this process's memory, which the offer keeps.
    """
    @staticmethod
    def of(geometry: Geometry, exchange: Exchange, facts: Sequence[GroupFacts], memory: Registry) -> Offer:
        """This engine's offer of the groups that `facts` describe, whose pools are registered in `memory`: by this process's addresses,
        and in the memory that a transport sees, which for the `Cpu` backend's device memory is the host's.

        Raises `SchemaError` where a group, side or segment is not there, too little is said, or it does not fit the geometry, and
        `RegistryError` where a pool is not registered there. It waits for launches, and raises `CaptureError` where one is being captured.
        """
    @staticmethod
    def parse(text: bytes) -> Offer:
        """An offer that a peer has sent by some other way than a `Producer` or a `Consumer`, to be looked at. Raises `SchemaError` and
        `TransportError` where it is too large, of another version, no offer, or does not fit together.
        """
    def to_json(self) -> bytes:
        """The offer as it is sent. Raises `TransportError` where it is too large."""
    def compare(self, theirs: Offer) -> None:
        """Raises `SchemaError` where the blocks of another offer mean something else: `mismatches` has every field."""
    @property
    def schema(self) -> dict[str, Any]:
        """What its blocks mean: dictionaries with the names that Rust's `PayloadSchema` has."""
    @property
    def rank(self) -> int:
        """Its tensor-parallel rank."""

@final
class Agent:
    """This process's end of all transfers: one a process, over NIXL. One producer and any number of consumers share it: whichever producer
    asks takes what peers say of any export.

    `name` is what peers know it by: one that no other process has, nor had before. `plugin` is what carries bytes, and `parameters` are
    the plugin's, by name, in place of those that suit imports (for UCX segments of 512 KiB over TCP, which it takes between a GPU and the
    host where there is no RDMA). Raises `NixlError`, with what to do, where NIXL's library is not there, or lacks calls or the plugin.
    Threads of the library do not survive `fork`: make it in the process that uses it.
    """
    def __new__(cls, name: str, *, plugin: str = "UCX", parameters: dict[str, str] | None = None) -> Agent: ...
    @property
    def name(self) -> str:
        """Its name."""
    def register(self, offer: Offer) -> None:
        """Lets peers read the memory of an offer, and this process's own reads write it, from now on. It comes before the first producer or
        consumer.

        The memory's regions cannot be released until the agent, and all producers and consumers that have it, are closed. Until then leave
        alone what is exported, and what imports are being read into, as with any call that runs beside yours.

        Raises `NixlError` where memory is registered already, a producer or consumer has the agent, or NIXL refuses it, and
        `RegistryError` where a region was released. Regions that were registered before the one that is refused stay so.
        """
    def metadata(self) -> bytes:
        """What peers need to reach this agent and its memory, for those who bring it there themselves: a `Producer` sends it. Raises
        `NixlError` where NIXL does not say.
        """
    def close(self) -> None:
        """Lets it go, with the registration of its memory, once no producer and no consumer has it any more. Later calls are errors.

        Raises `LaunchError` inside of a function that `replay` calls, as all of its calls.
        """

@final
class Ask:
    """What a rank of D asks for. Two asks are equal where they are the same one: D that asks once more has another."""
    @property
    def request(self) -> int:
        """The request, by the number that both engines know it by."""
    @property
    def imported(self) -> int:
        """Tokens that D imports."""
    @property
    def rank(self) -> int:
        """The rank that asks, and that will read."""

@final
class Producer:
    """P's end, of one rank: it takes connections of D's ranks, and holds what the engine has exported until nobody reads it.

    `agent` has the memory of `offer` registered. It listens at `address`, such as `"127.0.0.1:0"`, where the system chooses the port;
    what is said there can be read by others on its network. `secret` is sixteen bytes or more, drawn at random, that D has too.
    `lease`, `heartbeat` and `margin` are seconds: how long blocks are held after D was last heard, how often D is to be heard, and how
    much earlier D stops believing in the lease. `most_exports`, `most_connections` and `most_asked` (of one connection) are what there
    may be at one time. `incarnation` tells this process's exports from those of one before; drawn at random unless said.

    Raises `ControlError` where it cannot listen or the secret is short, `NixlError` where the memory is not registered, and
    `TransportError` where a lease is shorter than two heartbeats and the margin.
    """
    def __new__(
        cls,
        agent: Agent,
        offer: Offer,
        address: str,
        secret: bytes,
        *,
        lease: float = 30.0,
        heartbeat: float = 5.0,
        margin: float = 1.0,
        most_exports: int = 4096,
        most_connections: int = 256,
        most_asked: int = 1024,
        incarnation: int | None = None,
    ) -> Producer: ...
    def poll(self) -> list[dict[str, Any]]:
        """Goes on, and returns what happened: a list of dictionaries by `event`. It does not wait; call it a few times for each heartbeat at
        least.

        - `connected`, `closed`: a `connection`, by its number; `why` it was closed is an exception, or `None` where D is done.
        - `asked`: an `ask`, to be answered once by `grant` or `refuse`, now or later.
        - `withdrawn`: an `ask` whose connection is over. It needs no answer, and one that was given exports nothing.
        - `granted`: what an `ask` has got is held as `export` from now on. `refused`: it has got nothing, for a `reason`.
        - `freed`: no rank reads the `export` of an `ask` any more, and its blocks are free. `end` is how it ended for the rank: `read`,
          `failed` or `cancelled`, as D has said; `expired`, where D was not heard for the lease; or `gone`.
        - `unreached`: the system brings no connections, for `why`: this process may have as many files open as it may. It is tried
          again in each poll, and this is said once.

        Raises `NixlError` where the transport is broken. All that a peer does is an event.
        """
    def grant(self, ask: Ask, blocks: _Tables) -> None:
        """Exports the blocks of each group, by position: `{"main": [5, 2]}` for those from position 0 on, or
        `{"main": {"first": 3, "blocks": [7, None], "digests": [...]}}` with `None` where there is no block, and a number for the rows of
        each block where D is to check them. Their rows are complete in memory when this is called, and stay as they are until the
        export is freed. The next poll sends it, and says `granted`.

        Raises `TransportError` where the ask does not wait for an answer, `ValueError` for a dictionary that is no table, `TypeError` for
        what is no list of blocks by name, and `OverflowError` for a number that no block has.
        """
    def refuse(self, ask: Ask, reason: str) -> None:
        """Exports nothing, for a reason that D's engine is told. Raises as `grant` does."""
    def stop(self) -> None:
        """Takes no new connections and exports nothing more. What is exported is held as before; `is_finished` says when it is free."""
    @property
    def is_finished(self) -> bool:
        """Whether it was stopped, and holds nothing any more."""
    @property
    def held(self) -> int:
        """Exports that are held."""
    @property
    def connections(self) -> int:
        """Connections that are open."""
    @property
    def address(self) -> str:
        """Where it listens: `host:port`, with the port that the system chose."""
    def counters(self) -> dict[str, int]:
        """Sums since it was made, by name."""
    def close(self) -> None:
        """Closes the socket and all connections. Exports are not held any more, though D may be reading them: `stop`, and poll until
        `is_finished`, before this. Later calls are errors.

        Raises `LaunchError` inside of a function that `replay` calls.
        """

@final
class Consumer:
    """D's end, of one rank and one P: a connection, and imports in flight over it.

    `agent` has the memory of `offer` registered. It connects to a `Producer` at `address` with its `secret`, and waits for that at most
    `connect_timeout` seconds, without the interpreter; for nothing else. Reads have at most `most_bytes` bytes (64 MiB unless said
    otherwise): smaller ones tell more exactly what is valid when one fails. The other times are seconds: `greeting_timeout` is how long P may
    take to greet and to send its offer, `grant_timeout` how long to grant an export, `read_timeout` how long the reads of an import may take,
    `stop_timeout` how long reads that were told to stop may take until the engine hears that they are stuck, and `presence_interval` how
    often P hears something. `notices` go over the `"control"` channel, where P hears each; or over the `"transfer"`, which does not say
    whether they arrive. Each goes the other way where its own is lost.

    Raises `ControlError` where nobody is there or the secret is short, `NixlError` where the memory is not registered, and `TransportError`
    where the offer's rank is none that a lifecycle has, 0 to 63. A wrong secret, or blocks that mean something else, are the event `lost`.
    """
    def __new__(
        cls,
        agent: Agent,
        offer: Offer,
        address: str,
        secret: bytes,
        *,
        connect_timeout: float = 10.0,
        most_bytes: int | None = None,
        greeting_timeout: float = 10.0,
        grant_timeout: float = 300.0,
        read_timeout: float = 60.0,
        stop_timeout: float = 30.0,
        presence_interval: float = 5.0,
        notices: Literal["control", "transfer"] = "control",
    ) -> Consumer: ...
    def begin(
        self, request: int, imported: int, blocks: _Tables, *, id: dict[str, int] | None = None, awaited: bool = True
    ) -> None:
        """Wants an import read: so many `imported` tokens of the request that both engines know by that number. It is asked for as soon as
        P's offer is here.

        `blocks` are those to fill, by position, without those that are here already: tables as `Producer.grant` takes them, or as
        `WantedBy.tables` makes them. With none, P is notified and that is all. Where a lifecycle has asked for it, `id` is its id of the
        request, and the end brings its event. `awaited` says whether the engine waits to hear that all bytes are here.

        Raises `TransportError` where the connection is over, or an import of that request is in flight; `ValueError` for what is no
        id, and for tables what `Producer.grant` raises.
        """
    def cancel(self, request: int) -> None:
        """The client does not want an import any more. Its end comes all the same, once nothing writes its blocks."""
    def poll(self) -> list[dict[str, Any]]:
        """Goes on, and returns what happened: a list of dictionaries by `event`. Call it a few times for each heartbeat at least.

        It waits for nobody, but where P lacks a state that this side wants: its block is zeroed when the import begins, as by
        `Registry.write`, which waits for the registry's launches. While a stream of theirs is being captured that is refused, and the
        import fails.

        - `paired`: P's offer is here, and its blocks mean the same.
        - `begun`: P has granted the import of `request` as `export`, whose blocks at the positions that were wanted are the tables
          `exported`. So many `reads` of so many `bytes` are in flight, and `zeroed` bytes that no block of P has are zeros.
        - `ended`: the import of `request` is over, and nothing writes its blocks. `landed` says whether all bytes are here, `awaited`
          whether somebody waited for them. Where they are not, `why` is an exception, and `valid` says for each group by its name how many
          tokens from the prompt's first on are valid. `lifecycle` is the event for `Lifecycle.apply`, as it is, where `begin` was given an
          id and there is something to say; otherwise `None`.
        - `stuck`: reads of the import of `request` were told to stop long ago, and have not ended. Wait on, or close all that has the
          agent: memory that nobody can reach any more is written by nobody.
        - `lost`: the connection is over; `why` is an exception. Imports in flight still end, nothing more can be begun.

        Raises `LaunchError` inside of a function that `replay` calls.
        """
    @property
    def is_paired(self) -> bool:
        """Whether P's offer is here, and its blocks mean the same."""
    @property
    def over(self) -> Exception | None:
        """Why the connection is over: an exception, or `None` where it is not."""
    @property
    def in_flight(self) -> int:
        """Imports whose end has not come."""
    def counters(self) -> dict[str, int]:
        """Sums since it was made, by name."""
    def leave(self) -> None:
        """Tells P that nothing more will be said, after the last import has ended. Poll until `is_left`, and then `close`: by then P has
        heard all, and a connection that is closed before may lose what was said last. Imports in flight go on as after a lost
        connection.
        """
    @property
    def is_left(self) -> bool:
        """Whether the connection is over, and P has closed it where this side has said goodbye."""
    def close(self) -> None:
        """Closes the connection at once, and waits for nobody: what P has not heard is lost, unless `leave` and `is_left` came before.
        Reads in flight are given up, and may write until the agent is closed, and all producers and consumers that have it. Later calls
        are errors.

        Raises `LaunchError` inside of a function that `replay` calls.
        """

@final
class WantedBy:
    """From a lifecycle's numbers to the blocks that an import fills.

    `frames` are of every group that is imported, as `Runner.bind` takes them; `block_tokens` are the lifecycle's.
    """
    def __new__(
        cls, lifecycle: Lifecycle, geometry: Geometry, frames: Sequence[GroupFrames], *, block_tokens: int
    ) -> WantedBy: ...
    def tables(self, request: dict[str, int], first: int, end: int) -> dict[str, _Table]:
        """The blocks and pages to be read into, where the effect `read` names the positions `first` to `end` of a request: tables for
        `Consumer.begin`. Rings and states come whole.

        Raises `TransportError` where the frames lack what the request has or are of another geometry, or the request is over.
        """

def posted(request: dict[str, int], blocks: _Tables, *, ranks: int = 1) -> dict[str, Any]:
    """What a lifecycle is told when an import was begun that it asked for by the effect `read`: one read for each of the ranks from 0 to
    `ranks`, or none where the tables want nothing. It comes before the import's end.
    """
