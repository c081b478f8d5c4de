from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, final

__version__: str

_Memory = Literal["host", "device"]
_Direction = Literal["host to device", "device to host", "device to device"]
_Mode = Literal["whole", "exact", "exact-zeroed"]
_Recurrence = Literal["none", "state"]
_Restores = Literal["prefixes", "requests", "nothing"]
_TicketState = Literal["pending", "done", "superseded", "refused", "lost", "unknown"]

class _IntegerArray(Protocol):
    def tolist(self) -> Any: ...

class _CudaStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _StreamProtocol(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

# Block or page ids: a sequence of integers, or a one-dimensional integer array on the host.
_Ids = Sequence[int] | _IntegerArray
_Stream = int | _CudaStream | _StreamProtocol
_Layout = PagedLayout | RingLayout | StateLayout

class PageliftError(Exception):
    """Anything that pagelift refuses. `kind` names the case: the variant of the Rust error."""
    kind: str

class TensorError(PageliftError):
    """An object that cannot be a pool or an array: it has no memory (fake and meta tensors), is not contiguous, is read-only, lies on another device, or has another dtype."""
class LayoutError(PageliftError):
    """A layout that cannot be."""
class SpanError(PageliftError):
    """Prompt arithmetic that cannot be."""
class GeometryError(PageliftError):
    """Pools, sides or groups that do not fit together."""
class PlanError(PageliftError):
    """A plan that may not be. The plan is as it was."""

class CapacityError(PlanError):
    """More than a plan has room for. Fields: `what` (str), `needed` (int), `capacity` (int)."""
    what: str
    needed: int
    capacity: int

class LifecycleError(PageliftError):
    """An event that a lifecycle does not take. Nothing has changed."""
class RegistryError(PageliftError):
    """Memory that is not registered, was released, or overlaps other memory: Rust's `MemoryError`, which is another thing in Python."""
class LaunchError(PageliftError):
    """A launcher that cannot take a plan. Nothing was enqueued."""

class RingFullError(LaunchError):
    """Every staging slot holds a plan that may still run: launch, or wait. Fields: `slots` (int), `oldest` (Ticket)."""
    slots: int
    oldest: Ticket

class BackendError(PageliftError):
    """A backend that cannot run."""
class NoDriverError(BackendError):
    """There is no NVIDIA driver, or one that is too old: use `Cpu`."""
class CaptureError(BackendError):
    """A call that is not allowed while a stream is being captured, or that needs a capture where there is none."""

class DriverError(BackendError):
    """The driver refused a call. Fields: `call` (str), `code` (int), `name` (str)."""
    call: str
    code: int
    name: str

class ContextLostError(BackendError):
    """A fault took the GPU's context and all memory of it: restart the process."""

class Backend:
    """What runs kernels: `Cpu` or `Cuda`. Several launchers and threads may share one."""
    @property
    def name(self) -> Literal["cpu", "cuda"]:
        """`"cpu"` or `"cuda"`."""

@final
class Cpu(Backend):
    """Runs kernels on worker threads; a launch is complete when the call returns. 'Device' memory is ordinary memory.

    `threads` are the threads to use, at most 1024; 0 means one for each processor. Threads do not survive `fork`: open it in
    the process that uses it; in one that was forked off later, whoever launches copies alone. Raises `BackendError` where they cannot
    be started.
    """
    def __new__(cls, threads: int = 0) -> Cpu: ...

@final
class Cuda(Backend):
    """Runs kernels on one NVIDIA GPU, in its primary context, which PyTorch and the CUDA runtime use too.

    `ordinal` is the GPU's number as the driver counts, which is PyTorch's where `CUDA_VISIBLE_DEVICES` is the same. The driver
    is opened here: importing pagelift needs none. Raises `NoDriverError` where there is no driver, `BackendError` where there is
    no such GPU, or one that cannot run the kernels (compute capability below 8.0). With a `calibration`, launches whose `workers` is
    `None` use as many multiprocessors as it says.
    """
    def __new__(cls, ordinal: int = 0, *, calibration: Calibration | None = None) -> Cuda: ...
    @property
    def calibration(self) -> Calibration | None:
        """What was measured on it, where anybody has said it."""
    @property
    def batches_copies(self) -> bool:
        """Whether its driver takes many copies in one call: `CopyEngine.copy` with `"batch"`."""
    @property
    def device(self) -> str:
        """The GPU's name."""
    @property
    def bus(self) -> str:
        """Where the GPU is on the PCI bus: `0000:1B:00.0`."""
    @property
    def uuid(self) -> str:
        """What tells the GPU from every other one, as `nvidia-smi -L` writes it."""
    @property
    def multiprocessors(self) -> int:
        """Its multiprocessors: the most `workers` that a launch can use."""
    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that it has."""
    @property
    def driver(self) -> tuple[int, int]:
        """The driver's version of CUDA, major and minor."""

@final
class Pace:
    """How fast so many multiprocessors copy: `workers` multiprocessors, `bytes_per_second` by a launch of a few megabytes."""
    def __new__(cls, workers: int, bytes_per_second: int) -> Pace: ...
    @property
    def workers(self) -> int:
        """Multiprocessors."""
    @property
    def bytes_per_second(self) -> int:
        """Bytes a second."""
    def bytes_within(self, seconds: float) -> int:
        """Bytes that it copies in so many seconds: the budget of `RestorePlan.lift_within` for a step that has that time. Raises
        `ValueError` for a time that is negative or no number.
        """

@final
class Paces:
    """What was measured of one direction: of page plans, and of row plans."""
    def __new__(cls, pages: Pace, rows: Pace) -> Paces: ...
    @property
    def pages(self) -> Pace:
        """Of page plans."""
    @property
    def rows(self) -> Pace:
        """Of row plans."""

@final
class Calibration:
    """What was measured on one GPU and its link: for each direction, the fewest multiprocessors that are as good as more.

    The program's `pagelift calibrate --json` measures it in seconds. A `Cuda` that has it lets launches use as many as it says where
    `workers` is `None`.
    """
    def __new__(cls, *, host_to_device: Paces, device_to_host: Paces, device_to_device: Paces) -> Calibration: ...
    def pace(self, source: _Memory, destination: _Memory, pieces: Literal["pages", "rows"]) -> Pace | None:
        """What was measured from one memory to another, of `"pages"` or `"rows"`; `None` from host to host, where no GPU copies."""

@final
class Segment:
    """One equally spaced run of rows inside a page: row `r` lies `offset + r * row_stride` bytes after the start of its region.

    `row_bytes` are the bytes of a row, `row_stride` the bytes from one row to the next (`row_bytes` unless said). Engines
    that keep K and V in two tensors give each a region, numbered from 0.
    """
    def __new__(
        cls, name: str, offset: int, row_bytes: int, row_stride: int | None = None, region: int = 0
    ) -> Segment: ...
    @property
    def name(self) -> str:
        """The name that pairs it with the other side's segment."""
    @property
    def offset(self) -> int:
        """Bytes from the start of its region to row 0."""
    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
    @property
    def row_stride(self) -> int:
        """Bytes from one row to the next."""
    @property
    def region(self) -> int:
        """The region that `offset` counts from the start of."""

@final
class PagedLayout:
    """Pages of rows, one for each token or group of `tokens_per_row` tokens.

    `block_tokens` are the token slots of a page. `segments` are `Segment` objects, or pairs `(name, row_bytes)` that follow
    one another. `row_padding` are unused bytes after each row of such pairs, `page_bytes` the bytes of a page where it is
    padded beyond its last row (of each region, where it has several).

    Raises `LayoutError` where rows do not divide the block, a size is 0 or overflows, or segments share bytes or names.
    """
    def __new__(
        cls,
        block_tokens: int,
        segments: Sequence[Segment | tuple[str, int]],
        *,
        tokens_per_row: int = 1,
        row_padding: int = 0,
        page_bytes: int | None = None,
    ) -> PagedLayout: ...
    @staticmethod
    def mla_bf16(block_tokens: int) -> PagedLayout:
        """MLA in bf16 (DeepSeek V3): 512 latent and 64 rope values a token, rows of 1152 bytes."""
    @staticmethod
    def fp8_ds_mla(block_tokens: int) -> PagedLayout:
        """`fp8_ds_mla` (DeepSeek V3.2): 512 e4m3 values, 4 f32 scales and 64 bf16 rope values in one row of 656 bytes."""
    @staticmethod
    def indexer_fp8(block_tokens: int) -> PagedLayout:
        """The fp8 indexer of DeepSeek V3.2: a segment of 128-byte keys, then one of 4-byte scales."""
    @staticmethod
    def indexer_mxfp4(block_tokens: int) -> PagedLayout:
        """The MXFP4 indexer: a segment of 64-byte keys, then one of 4-byte scales."""
    @staticmethod
    def deepseek_v4(block_tokens: int, rounding: int) -> PagedLayout:
        """DeepSeek V4 in fp8: a segment of 576-byte rows, then one of 8 bytes; pages are a multiple of `rounding` bytes (576 or
        512, as the engine has it).
        """
    @staticmethod
    def deepseek_v4_1(block_tokens: int) -> PagedLayout:
        """DeepSeek V4.1: a segment of 512-byte rows, then one of 16 bytes; pages are a multiple of 512 bytes."""
    @staticmethod
    def qsa_main_bf16(block_tokens: int, kv_heads: int) -> PagedLayout:
        """QSA's main cache in bf16: a segment for each KV head, its rows K of 256 values, then V of 256."""
    @staticmethod
    def qsa_main_fp8(block_tokens: int, kv_heads: int) -> PagedLayout:
        """QSA's main cache in fp8: the same with one byte a value."""
    @staticmethod
    def qsa_compressed_bf16(block_tokens: int) -> PagedLayout:
        """QSA's compressed index keys in bf16: 128 values for each group of 4 tokens."""
    @staticmethod
    def qsa_compressed_fp8(block_tokens: int, width: int) -> PagedLayout:
        """QSA's compressed index keys in fp8: `width` bytes for each group of 4 tokens."""
    @staticmethod
    def dense(
        block_tokens: int,
        *,
        heads: int,
        dim: int,
        value_bytes: int,
        order: Literal["nhd", "hnd"],
        regions: Literal["packed", "separate"],
        scales: Literal["outside", "per-token-head"] = "outside",
    ) -> PagedLayout:
        """Dense K and V (MHA, GQA) of one rank: `heads` KV heads of `dim` values of `value_bytes` bytes.

        `order` is `"nhd"` (heads inside rows) or `"hnd"` (heads outside), `regions` is `"packed"` (K, then V, in one page) or
        `"separate"` (two regions with bases of their own), `scales` is `"outside"` or `"per-token-head"` (an f32 for each token
        and head at the end of the page). None of it is ever guessed from sizes.
        """
    @property
    def block_tokens(self) -> int:
        """Token slots of a page."""
    @property
    def tokens_per_row(self) -> int:
        """Tokens that share one row."""
    @property
    def rows_per_block(self) -> int:
        """Rows of a page."""
    @property
    def page_bytes(self) -> int:
        """Bytes of one layer's page: all regions, and the padding inside them."""
    @property
    def region_bytes(self) -> list[int]:
        """Bytes of each region of one layer's page."""
    @property
    def segments(self) -> list[Segment]:
        """The runs of rows, in the order they were given."""
    def padded_to(self, page_bytes: int) -> PagedLayout:
        """The same page, padded to `page_bytes` bytes (each of its regions, where it has several)."""
    def complete_rows(self, tokens: int) -> int:
        """Rows that are complete when a page holds its first `tokens` tokens."""

@final
class RingLayout:
    """One page for each request with `slots` slots, overwritten in turn: the row of position `p` lies in slot `p % slots`.

    `slot_bytes` are the bytes of a slot's row, `slot_padding` unused bytes after each. It is lifted whole, and mirrored slot
    by slot. Raises `LayoutError` where a size is 0 or overflows, or the page is too small.
    """
    def __new__(
        cls, slots: int, slot_bytes: int, *, slot_padding: int = 0, page_bytes: int | None = None
    ) -> RingLayout: ...
    @staticmethod
    def qsa(block_tokens: int, spec: int, slot_bytes: int) -> RingLayout:
        """QSA's ring of raw index keys: the smallest multiple of 4 slots that holds `4 + spec` and divides the block."""
    @property
    def slots(self) -> int:
        """Slots of the ring."""
    @property
    def page_bytes(self) -> int:
        """Bytes of one layer's page."""

@final
class StateLayout:
    """One page for each request, copied whole or not at all: recurrent state.

    `parts` are `(name, bytes)` pairs that follow one another, or `(name, offset, bytes)` each. `page_bytes` are the bytes of a
    page where it is padded. `conv_order` says how a convolution's window lies: `"sd"` (state_len, dim), the usual one, or
    `"ds"` (dim, state_len). Raises `LayoutError` where a part is empty, or parts share bytes or names.
    """
    def __new__(
        cls,
        parts: Sequence[tuple[str, int]] | Sequence[tuple[str, int, int]],
        *,
        page_bytes: int | None = None,
        conv_order: Literal["sd", "ds"] | None = None,
    ) -> StateLayout: ...
    @staticmethod
    def gdn(
        *,
        conv_dim: int,
        v_heads: int,
        v_dim: int,
        k_dim: int,
        spec: int = 0,
        tp: int = 1,
        page_bytes: int | None = None,
    ) -> StateLayout:
        """A gated delta net: convolution window `(3 + spec, conv_dim / tp)` in bf16, then the temporal state
        `(v_heads / tp, v_dim, k_dim)` in f32.
        """
    @staticmethod
    def ssm(
        *,
        kernel: int,
        inner: int,
        groups: int,
        state: int,
        heads: int,
        head_dim: int,
        spec: int = 0,
        tp: int = 1,
        page_bytes: int | None = None,
    ) -> StateLayout:
        """Mamba2: convolution window `(kernel - 1 + spec, (inner + 2 * groups * state) / tp)` in bf16, then the SSM state
        `(heads / tp, head_dim, state)` in f32.
        """
    @staticmethod
    def ple(
        *, kernel: int, ngram: int, hidden: int, hc: int, spec: int = 0, page_bytes: int | None = None
    ) -> StateLayout:
        """A PLE short convolution `((kernel - 1) * ngram + spec, hidden * hc)` in bf16, whole on every rank."""
    @property
    def state_bytes(self) -> int:
        """Bytes of the parts together."""
    @property
    def page_bytes(self) -> int:
        """Bytes of one layer's page."""
    @property
    def conv_order(self) -> Literal["sd", "ds"] | None:
        """`"sd"`, `"ds"`, or `None` where it was not said."""

@final
class Region:
    """One registered range of memory. `int(region)` is its address."""
    @property
    def address(self) -> int:
        """Where kernels reach its first byte."""
    @property
    def bytes(self) -> int:
        """Its size."""
    @property
    def place(self) -> _Memory:
        """`"host"` or `"device"`."""
    @property
    def dtype(self) -> str | None:
        """The dtype of the tensor that was adopted, as `"int64"`; `None` for memory of the registry's own."""
    @property
    def items(self) -> int | None:
        """The items of the tensor that was adopted; `None` for memory of the registry's own."""
    def __int__(self) -> int: ...

@final
class HostPoolSpec:
    """A pool's blocks, and how many of them are registered at a time.

    `blocks` blocks of `block_bytes` bytes, all layers of a block together, in chunks of at most `chunk_bytes` bytes (256 GiB at
    most), each of which is registered alone. A chunk never cuts a block, and is what a geometry calls an extent. `threads` threads
    prepare it, at most 256; 0 stands for one a processor, and no more than 16. `huge_pages` asks the system for huge pages, where the
    pool's memory is its own.
    """
    def __new__(
        cls,
        blocks: int,
        block_bytes: int,
        *,
        chunk_bytes: int = ...,
        threads: int = 0,
        huge_pages: bool = True,
    ) -> HostPoolSpec: ...
    @property
    def blocks(self) -> int:
        """Its blocks."""
    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
    @property
    def blocks_per_extent(self) -> int:
        """Blocks of an extent of memory that is allocated for the pool, or shared; the last may have fewer. Raises `RegistryError` for a
        pool that cannot be.
        """
    @property
    def bytes(self) -> int:
        """Bytes of memory that is allocated for the pool, or shared: whole pages. Raises as `blocks_per_extent` does."""

@final
class SharedMemory:
    """Memory that several processes map: a memfd whose descriptor they hand on, or a file in `/dev/shm` or `hugetlbfs`.

    One process makes it, with the bytes that a `HostPoolSpec` says; all of them map it by `Registry.share_pool` with the same spec.
    Its size must not change meanwhile.
    """
    @staticmethod
    def create(name: str, bytes: int) -> SharedMemory:
        """Makes zeroed memory without a path, which lives as long as a process has a descriptor or a mapping of it. Its size is sealed.
        `name` is what `/proc/PID/maps` shows. Raises `RegistryError` where the system refuses it.
        """
    @staticmethod
    def create_file(path: str | PathLike[str], bytes: int) -> SharedMemory:
        """Makes a file of so many zeros, which must not exist yet. Whoever made it removes it. Raises `RegistryError` where the system
        refuses it.
        """
    @staticmethod
    def open(path: str | PathLike[str]) -> SharedMemory:
        """Opens a file that another process has made. Raises `RegistryError` where the system refuses it."""
    @staticmethod
    def from_descriptor(descriptor: int) -> SharedMemory:
        """Opens what a descriptor of this process stands for, which another one has handed on; the descriptor stays yours. Raises
        `RegistryError` where it stands for nothing that can be opened.
        """
    def fileno(self) -> int:
        """Its descriptor, to be handed on. It is closed with this object."""
    @property
    def bytes(self) -> int:
        """Its size. Raises `RegistryError` where the system does not say it."""

@final
class HostPool:
    """A host pool whose memory was registered chunk by chunk."""
    @property
    def blocks(self) -> int:
        """Its blocks."""
    @property
    def blocks_per_extent(self) -> int:
        """Blocks of an extent; the last may have fewer."""
    @property
    def regions(self) -> list[Region]:
        """A region for each extent."""

@final
class Registry:
    """Knows every region of memory that kernels may touch, and keeps the tensors that these belong to.

    Memory is registered before anything is bound to it. While a launch that reads or writes a region may run, leave the bytes
    that it touches alone, as with any call of NumPy or PyTorch that runs beside yours; do not resize a tensor's storage.
    A tensor that refers to its registry keeps both: release its region.
    """
    def __new__(cls) -> Registry: ...
    def adopt(self, backend: Backend, place: _Memory, tensor: Any) -> Region:
        """Takes in a tensor's memory, where it lies, and keeps the tensor until the region is released.

        `place` is `"host"` or `"device"`: on a `Cuda` backend a host tensor, which is pinned and mapped here unless it is already,
        or one of that GPU; on the `Cpu` backend both are the host's. `tensor` is a PyTorch tensor, an array with
        `__cuda_array_interface__`, a NumPy array, or one with `__dlpack__`: contiguous, writable, of any shape and dtype, not empty.
        What is enqueued for it on other streams is not waited for.

        Raises `TensorError` for a tensor that cannot serve, `RegistryError` where it shares bytes with a region that is here, and
        what the driver says.
        """
    def allocate(self, backend: Backend, place: _Memory, bytes: int) -> Region:
        """Allocates `bytes` zeroed bytes, page-aligned: pinned and mapped memory of the host, or memory of the device.

        Raises `RegistryError` where there is no room for it.
        """
    def allocate_pool(self, backend: Backend, spec: HostPoolSpec) -> HostPool:
        """Allocates a host pool of zeroed memory: pinned and mapped, on the GPU's NUMA node where there are several, in huge pages where
        the system has them. It is read and written through its regions.

        Raises `RegistryError` where there is no room for it, or the spec is one that cannot be. Then nothing stays allocated.
        """
    def share_pool(self, backend: Backend, spec: HostPoolSpec, memory: SharedMemory) -> HostPool:
        """Maps memory that several processes have as a host pool, and registers this process' mapping of it. All of them give the same
        spec. What a launch of one process reads and writes, the others leave alone until it is done.

        Raises `RegistryError` where the memory has not the spec's `bytes`, and as `allocate_pool` does.
        """
    def adopt_pool(self, backend: Backend, tensor: Any, spec: HostPoolSpec) -> HostPool:
        """Takes in a host tensor as a pool, registered in chunks by several threads: for pools of many gigabytes.

        A geometry has an extent for each chunk: give `GeometryBuilder.pool` the pool's `blocks`, `regions` and `blocks_per_extent`,
        and `SideSpec.packed` its `regions`. Raises `TensorError` as `adopt` does, and where the tensor is too small;
        `RegistryError` where chunks of that size would cut blocks or pages of memory, or a chunk is registered in part already. Then
        nothing stays registered.
        """
    def release(self, region: Region) -> None:
        """Releases a region once no launch uses it any more: this waits. Launchers that need it refuse work from then on.

        Raises `RegistryError` where it was released before, a launcher that was recorded into a graph is not closed yet, for graphs
        may be replayed without pagelift's knowledge, or a transport's agent that has it is not: peers may read it.
        """
    def read(self, region: Region, at: int, length: int) -> bytes:
        """A copy of `length` bytes from offset `at` of a region on, once no launch that this registry knows of touches it.

        Raises `RegistryError` where the region was released, or has no such bytes, and `MemoryError` where there is no room for them.
        """
    def write(self, region: Region, at: int, data: bytes) -> None:
        """Copies `data` to offset `at` of a region, once no launch that this registry knows of touches it.

        Raises `RegistryError` where the region was released, or has no such bytes.
        """
    def __len__(self) -> int: ...

@final
class PoolId:
    """A pool of a `GeometryBuilder`: memory whose blocks share one numbering."""
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def memory(self) -> _Memory:
        """`"host"` or `"device"`."""

@final
class SideSpec:
    """Where a group's blocks lie in one pool, and what one of them looks like there: made by `SideSpec.packed` or
    `SideSpec.layer_separate`.

    Region `r` of block `b` of layer `l` begins at `bases[l, r, b // blocks_per_extent] + (b % blocks_per_extent) * block_stride`.
    """
    @staticmethod
    def packed(
        pool: PoolId,
        extents: Sequence[Region | int],
        layer_offsets: Sequence[int],
        block_stride: int,
        layout: _Layout,
    ) -> SideSpec:
        """Layers at the same offsets in every extent.

        `extents` are the pool's regions, one for each extent (or addresses inside of them), `layer_offsets` the bytes from an
        extent's start to block 0 of each layer (of each region of each layer, layers outermost), `block_stride` the bytes from one
        block of a layer to the next. For `page` bytes of a layer's block, layers outermost: offsets `l * blocks * page`, stride
        `page`; blocks outermost: offsets `l * page`, stride `layers * page`.
        """
    @staticmethod
    def layer_separate(
        pool: PoolId, layers: Sequence[Region | int], block_stride: int, layout: _Layout
    ) -> SideSpec:
        """Each layer, or each region of each layer, a tensor of its own: `layers` are their regions (or the addresses of their block
        0), layers outermost. An engine that keeps K and V of each layer apart lists `[k0, v0, k1, v1, ...]`.
        """
    @property
    def bases(self) -> list[int]:
        """The address of block 0 of each layer, region and extent, layers outermost."""
    @property
    def block_stride(self) -> int:
        """Bytes from one block of a layer to the next."""

@final
class GroupKey:
    """A group of one geometry. `kind` is `"paged"`, `"ring"` or `"state"`."""
    @property
    def name(self) -> str:
        """Its name."""
    @property
    def kind(self) -> Literal["paged", "ring", "state"]:
        """`"paged"`, `"ring"` or `"state"`."""

@final
class SideKey:
    """A side of one group, for routes and digests."""
    @property
    def memory(self) -> _Memory:
        """`"host"` or `"device"`."""

@final
class RouteKey:
    """A way between two sides of one group, for gathers. `direction` is `"host to device"`, `"device to host"` or
    `"device to device"`.
    """
    @property
    def direction(self) -> _Direction:
        """`"host to device"`, `"device to host"` or `"device to device"`."""

@final
class CompactRouteKey:
    """A way into a compact buffer, for gathers of rows by index lists."""
    @property
    def direction(self) -> _Direction:
        """`"host to device"`, `"device to host"` or `"device to device"`."""

@final
class DigestKey:
    """A side that digests may read."""

@final
class GeometryBuilder:
    """Collects pools, groups, sides and routes; `build` makes a `Geometry` of them.

    Each call checks what it is given and raises `GeometryError`, after which the builder is as it was.
    """
    def __new__(cls) -> GeometryBuilder: ...
    def pool(
        self,
        name: str,
        memory: _Memory,
        blocks: int,
        regions: Sequence[Region],
        *,
        blocks_per_extent: int | None = None,
    ) -> PoolId:
        """Adds a pool of `blocks` blocks (ids `0 .. blocks`, at most 2**31) in `memory` (`"host"` or `"device"`), whose blocks lie in
        `regions`. `blocks_per_extent` are the blocks of one region, where a pool has several extents (`HostPool`).

        Groups that alias one slab name one pool; groups with memory of their own have a pool each.
        """
    def group(
        self,
        name: str,
        *,
        layers: int,
        landing: _Memory,
        lift: Literal["tail", "all", "state", "none"],
        host: SideSpec | None = None,
        device: SideSpec | None = None,
    ) -> GroupKey:
        """Adds a group of `layers` layers with its main sides, whose layouts say of which kind it is.

        `landing` is where its imported blocks arrive, `"host"` or `"device"`. `lift` is what of a host-landed group is lifted: of
        paged groups `"tail"` (the writable page), `"all"` or `"none"`, of rings and states `"state"` or `"none"`. Each engine's
        groups have names by which they pair with the other's.
        """
    def side(self, group: GroupKey, spec: SideSpec) -> SideKey:
        """Adds another side of a group: a second arrangement of the same rows, for gathers."""
    def main_side(self, group: GroupKey, memory: _Memory) -> SideKey | None:
        """The main side of a group in `memory`, or `None` where it has none there."""
    def route(self, source: SideKey, destination: SideKey) -> RouteKey:
        """Adds a way from one side of a group to another, or to itself for copies inside one pool. Its direction follows from the
        sides' memories.
        """
    def compact_route(self, source: SideKey, destination: SideKey) -> CompactRouteKey:
        """Adds a way into a compact buffer: a side whose pool has one block, of as many rows as are gathered at most."""
    def digest(self, side: SideKey) -> DigestKey:
        """Lets digests read a side."""
    def build(self) -> Geometry:
        """Checks that no two blocks share a byte, and finishes the geometry. The builder is used up, also where that fails."""

@final
class Geometry:
    """Pools, groups, sides and routes, checked, with the tables that kernels read. Plans are made for one."""
    @property
    def groups(self) -> list[str]:
        """The names of its groups."""
    @property
    def pools(self) -> list[str]:
        """The names of its pools."""
    def block_slots(self, group: GroupKey, memory: _Memory) -> int | None:
        """Token slots of a block of a group's main side in `memory` (a ring's slots; 1 for states), or `None`."""
    def lift_route(self, group: GroupKey) -> RouteKey | None:
        """The way by which a group's imported blocks are lifted, or `None` where it lacks a main side."""
    def spill_route(self, group: GroupKey) -> RouteKey | None:
        """The way by which a group's pages are written back, or `None` where it lacks a main side."""

@final
class PromptSpan:
    """Which tokens of a prompt are imported, and the first that the decoder computes.

    `recurrence` is `"none"` for attention-only models: all tokens are imported, and the last is computed again for its logits.
    It is `"state"` where any group keeps recurrent state: the last token is not imported, for a state must not absorb it twice.
    Raises `SpanError` for a prompt of no tokens.
    """
    def __new__(cls, prompt_tokens: int, recurrence: _Recurrence = "none") -> PromptSpan: ...
    @staticmethod
    def explicit(prompt_tokens: int, imported_tokens: int, resume_at: int) -> PromptSpan:
        """A span as the engine decided it. Raises `SpanError` where more is imported than the prompt has, or decoding does not
        resume at the token after the imported ones or at the last of them, inside the prompt.
        """
    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
    @property
    def imported_tokens(self) -> int:
        """Tokens imported."""
    @property
    def resume_at(self) -> int:
        """The first token that the decoder computes."""
    def in_blocks_of(self, block_tokens: int) -> BlockSpan:
        """The same span in blocks of `block_tokens` slots."""

@final
class BlockSpan:
    """A prompt's span in blocks of one size."""
    @property
    def block_tokens(self) -> int:
        """Token slots of a block."""
    @property
    def received(self) -> int:
        """Blocks received."""
    @property
    def capacity(self) -> int:
        """Token slots of the received blocks."""
    @property
    def holes(self) -> int:
        """Slots of the received blocks that hold no imported token."""
    @property
    def tail_page(self) -> int:
        """The writable page: the one that `resume_at` lies in."""
    @property
    def tail_tokens(self) -> int:
        """Imported tokens in the writable page, possibly none."""
    @property
    def endpoints(self) -> int:
        """Blocks up to the writable page, that one included."""

@final
class Decision:
    """What a policy decided for one import."""
    @property
    def span(self) -> PromptSpan:
        """What is imported, and where decoding resumes."""
    @property
    def blocks(self) -> BlockSpan:
        """The same in blocks."""
    @property
    def arrival(self) -> Literal["host-then-lift", "host", "device"]:
        """Where it arrives: `"host-then-lift"`, `"host"` (nothing is lifted, because the writable page begins empty) or `"device"`."""
    @property
    def pages(self) -> int:
        """Pages that the import needs on the device before it starts; the writable one is among them."""
    @property
    def left(self) -> int:
        """Prompt tokens that are left to the decoder: 1 where it only replays or computes the last."""

def decide(
    prompt_tokens: int,
    *,
    block_tokens: int,
    free_pages: int,
    recurrence: _Recurrence = "none",
    policy: Literal["lift-tail", "round-down", "land-on-device"] = "lift-tail",
) -> Decision:
    """Decides what becomes of a prompt's partly filled last block, in blocks of `block_tokens` tokens, with `free_pages` pages free.

    `policy` is `"lift-tail"` (received and lifted into one page; the default), `"round-down"` (left out: the decoder computes its
    tokens again) or `"land-on-device"` (on the device with all blocks before it, where there are pages enough). Raises `SpanError`
    where the prompt is empty or a block has no slots.
    """

@final
class ImportGroup:
    """The blocks and pages of one group of an import.

    `blocks` are its host blocks and `pages` its pages, as sequences of integers or one-dimensional integer arrays on the host. A
    paged group's blocks are those from the prompt's first on, in order, up to that of `resume_at`; its pages are the writable one
    where it lifts the tail, and all up to it where it lifts all. A ring or a state has one block and one page.
    """
    def __new__(cls, group: GroupKey, blocks: _Ids, pages: _Ids) -> ImportGroup: ...
    @staticmethod
    def landed(group: GroupKey, pages: _Ids) -> ImportGroup:
        """A group whose blocks landed on the device this time, though it usually lands on the host: nothing is lifted."""

@final
class Import:
    """One prompt's imported blocks, group by group: `span` says its tokens, `groups` its blocks."""
    def __new__(cls, span: PromptSpan, groups: Sequence[ImportGroup]) -> Import: ...
    @property
    def span(self) -> PromptSpan:
        """Its tokens."""

@final
class ImportId:
    """A reserved import, until it is released. Its number is used again; the id is not."""
    @property
    def number(self) -> int:
        """Its place among the imports that are reserved at one time."""

@final
class Reservations:
    """Imports between reservation and release.

    An import is reserved when its host blocks and pages are known, before anything is received. All that can be wrong with its
    lists is found then, once, and no two imports lift into one page; steps add it by `RestorePlan.lift_reserved`, which takes no
    lists. `imports` is how many there may be at one time (at most 2**20), `jobs` and `list_entries` the room of each.
    """
    def __new__(
        cls, geometry: Geometry, imports: int, *, jobs: int = 384, list_entries: int = 8192
    ) -> Reservations: ...
    def reserve(self, import_: Import, mode: _Mode = "whole") -> ImportId:
        """Takes an import's blocks and pages for it, and works out what lifting it in `mode` takes.

        Raises `PlanError` as `RestorePlan.lift` does, and where another import lifts into one of its pages or holds one that it
        would lift into; `CapacityError` where all imports are taken. Nothing is held then that was not before.
        """
    def release(self, import_id: ImportId) -> None:
        """Gives an import's blocks and pages back: no launch or transfer touches them any more. Raises `PlanError` where it was
        released already, or reserved elsewhere.
        """
    def bytes(self, import_id: ImportId) -> int | None:
        """Bytes that lifting an import copies, or `None` where it is not reserved here."""
    def __len__(self) -> int: ...
    def __contains__(self, import_id: ImportId, /) -> bool: ...

class Plan:
    """Any plan: what one launch copies. Filled, staged by a `Launcher`, cleared and filled again. A call that fails leaves it as it
    was.
    """
    @property
    def jobs(self) -> int:
        """Jobs planned."""
    @property
    def bytes(self) -> int | None:
        """Bytes that the launch copies (or digests read); `None` where only the device knows (row plans)."""

class PagePlan(Plan):
    """Whole blocks, in one launch, in `direction`: `"host to device"`, `"device to host"` or `"device to device"`.

    `jobs` is the room for jobs, about one for each import and group; `list_entries` that for blocks of groups that are lifted or
    gathered whole. All memory is allocated here. Raises `CapacityError` past 2**20 jobs or 2**24 entries.
    """
    def __new__(
        cls, geometry: Geometry, direction: _Direction, *, jobs: int = 384, list_entries: int = 8192
    ) -> PagePlan: ...
    def clear(self) -> None:
        """Empties the plan, and keeps its memory."""
    @property
    def is_empty(self) -> bool:
        """Whether nothing is planned."""
    def gather(self, route: RouteKey, sources: _Ids, destinations: _Ids) -> None:
        """Copies whole blocks along a route, `sources[i]` to `destinations[i]`: sequences of block ids.

        Where rows per block differ, both lists are read as one row of rows after another: two blocks of 128 fill four pages of 64.
        Raises `PlanError` where the lists do not fit each other, an id is out of range, a row is written twice, or read and
        written, a block belongs to another group, or (`CapacityError`) the table is full; `TypeError` for a route of another
        direction.
        """
    def zero(self, route: RouteKey, block: int, first: int, rows: int) -> None:
        """Writes zeros to rows `first .. first + rows` of a block at the end of a route. Raises `PlanError` where these are not rows
        of the block, or are written already.
        """

@final
class LiftProgress:
    """Where an import that is lifted over several plans goes on. `RestorePlan.lift_within` returns the next one."""
    def __new__(cls) -> LiftProgress: ...
    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to lift."""

@final
class RestorePlan(PagePlan):
    """A plan that lifts imported blocks into pages.

    `mode` is which rows of a partly filled page are lifted: `"whole"` (all of the final block; rows after the imported ones mean
    nothing), `"exact"` (the imported rows; others are left alone) or `"exact-zeroed"` (the imported rows, and zeros after them).
    """
    def __new__(cls, geometry: Geometry, *, jobs: int = 384, list_entries: int = 8192) -> RestorePlan: ...
    def lift(self, import_: Import, mode: _Mode = "whole") -> None:
        """Adds an import: what each of its groups lifts. All of its lists are checked.

        Raises `PlanError` where a lifted group is missing or comes twice, a list has another length than the tokens need, an id is
        out of range, rows are written twice, a block belongs to another group, or (`CapacityError`) the table is full.
        """
    def lift_within(
        self, import_: Import, mode: _Mode, progress: LiftProgress, budget: int
    ) -> tuple[LiftProgress, int]:
        """Adds as much of an import as `budget` bytes allow. Returns the progress after it and the bytes that are left.

        An empty plan takes at least one page, however small the budget. Keep the old progress until the plan is staged. Raises as
        `lift` does.
        """
    def lift_reserved(self, reservations: Reservations, import_id: ImportId) -> None:
        """Adds a reserved import, whose lists were checked when it was reserved: a hot call, which takes no lists.

        Raises `PlanError` where it was released or reserved elsewhere, its rows are written already, or the table is full.
        """

@final
class WriteBackPlan(PagePlan):
    """A plan that writes pages back to host blocks."""
    def __new__(cls, geometry: Geometry, *, jobs: int = 384, list_entries: int = 8192) -> WriteBackPlan: ...
    def spill(self, group: GroupKey, pages: _Ids, blocks: _Ids) -> None:
        """Writes pages of a paged group back to host blocks, whole. Raises as `gather` does; `TypeError` for another kind of group."""
    def checkpoint(self, group: GroupKey, page: int, block: int) -> None:
        """Writes one request's state back to a host block: the whole page, all layers. Raises as `gather` does; `TypeError` for
        another kind of group.
        """

@final
class DigestNumber:
    """Which of a plan's digests a call added; `Launcher.digest` takes it."""

@final
class DigestPlan(Plan):
    """Digests of rows, in one launch: one number for each list of blocks, the same for the same rows wherever they lie, and whatever
    lies in holes and padding.
    """
    def __new__(cls, geometry: Geometry, *, jobs: int = 384, list_entries: int = 8192) -> DigestPlan: ...
    def clear(self) -> None:
        """Empties the plan. Numbers that it gave before are of no use any more."""
    def host(self, side: DigestKey, blocks: _Ids, rows: int) -> DigestNumber:
        """Adds the first `rows` rows of a list of host blocks. Raises `PlanError` where the side lies on the device, the list has
        fewer rows, an id is out of range, or the table is full.
        """
    def device(self, side: DigestKey, pages: _Ids, rows: int) -> DigestNumber:
        """Adds the first `rows` rows of a list of pages. Raises `PlanError` where the side lies on the host, and as `host` does."""

@final
class RowBinding:
    """The device arrays that say which rows a step wrote. Their addresses are fixed when a graph is captured; their contents are read
    by each replay.

    Each is a `Region` of the registry's, adopted from a tensor in `"device"` memory, or the address of something inside one.

    - `slots`: int64 or int32, one entry for each token: the slot its row was written to. Slot `s` is slot `s % page_slots` of page
      `s // page_slots`; a negative one is padding.
    - `capacity`: entries that there is room for, and `width`, their bytes (8 or 4): those of the region unless said. Both are needed
      for an address.
    - `count`: int32, the number of valid entries; `None`: all are.
    - `query_starts`: int32 of `requests + 1` entries, where each request's tokens begin, not falling; the last is the number of
      tokens. `accepted`: int32 of `requests` entries, the accepted tokens of each request, a prefix; `None`: all are. `requests` is
      what the region has room for unless said.
    - `null_page`: a page that means 'no page', where the engine has one.

    Raises `TensorError` for a region of another dtype, or too short.
    """
    def __new__(
        cls,
        slots: Region | int,
        *,
        capacity: int | None = None,
        width: Literal[4, 8] | None = None,
        count: Region | int | None = None,
        query_starts: Region | int | None = None,
        accepted: Region | int | None = None,
        requests: int | None = None,
        null_page: int | None = None,
    ) -> RowBinding: ...

class RowPlan(Plan):
    """Rows that a step wrote, in one launch, in `direction`.

    Bindings stay from step to step. `bindings` is the room for them (at most 2**16), `changes` that for page-map changes of one
    staging (at most 2**24).
    """
    def __new__(
        cls, geometry: Geometry, direction: _Direction, *, bindings: int = 16, changes: int = 1024
    ) -> RowPlan: ...
    def gather_rows(self, route: CompactRouteKey, list: RowBinding) -> None:
        """Gathers rows by an index list into a compact buffer: entry `i` of `list` names row `r % rows` of block `r // rows` of the
        source side, which goes to row `i` of the buffer. Negative entries leave their row alone.

        Raises `PlanError` where the key is of another geometry or bound already, another binding writes to the buffer or reads it, or
        the list has room for more entries than the buffer has rows; `TypeError` for a route of another direction.
        """
    def clear_bindings(self) -> None:
        """Forgets all bindings, and keeps the page map."""

@final
class MirrorPlan(RowPlan):
    """A plan that writes newly generated rows back to host blocks: bindings say which rows, `page_map` where to.

    The launcher that was bound with it last keeps its page map on the device; others refuse the plan.
    """
    def __new__(cls, geometry: Geometry, *, bindings: int = 16, changes: int = 1024) -> MirrorPlan: ...
    def bind(self, group: GroupKey, binding: RowBinding) -> None:
        """Mirrors the rows of a paged or ring group that a step wrote, as `binding` will say on the device.

        Raises `PlanError` where the group has no host side or is bound already, an address is 0 or misaligned, or no more bindings
        fit; `TypeError` for a state, which is checkpointed.
        """
    @property
    def page_map(self) -> PageMap:
        """Which host block mirrors which page."""

@final
class PageMap:
    """Which host block mirrors which page of each group. Changes take effect when the plan is staged; a page is unmapped before it is
    given away.
    """
    def map(self, group: GroupKey, page: int, block: int) -> None:
        """Maps `page` of `group` to host block `block`.

        Raises `PlanError` where an id is out of range, the page is mapped, the block mirrors another page, one of them belongs to
        another group, pages and blocks differ in rows (see `map_rows`), or (`CapacityError`) no more changes fit.
        """
    def map_rows(self, group: GroupKey, page: int, page_row: int, block: int, block_row: int) -> None:
        """Maps the rows of a page from `page_row` on to those of a block from `block_row` on, where pages and blocks differ in rows: as
        many as the smaller of the two has. Raises as `map` does, and where a first row is no multiple of that number.
        """
    def unmap(self, group: GroupKey, page: int) -> None:
        """Unmaps all of `page` of `group`. What is not mapped stays so. Raises `PlanError` where the page is out of range, or
        (`CapacityError`) no more changes fit.
        """
    def block_of(self, group: GroupKey, page: int) -> int | None:
        """The host block that mirrors the first rows of `page` of `group`, or `None`."""
    @property
    def pending(self) -> int:
        """Changes that no staged plan has carried yet."""

@final
class Ticket:
    """The number of one staged plan, counted from 1 by each launcher. Tickets of two launchers are never equal."""
    @property
    def number(self) -> int:
        """Its number, from 1."""
    @property
    def launcher(self) -> int:
        """The `id` of the launcher that gave it."""

@final
class Report:
    """What a launch reported of one plan."""
    @property
    def rows(self) -> int:
        """Rows that a row plan copied; 0 for page plans."""
    @property
    def skipped(self) -> int:
        """Entries of slot mappings that were rightly left alone: padding, pages without a mirror, tokens that were not accepted."""
    @property
    def bad(self) -> int:
        """Entries on the device that made no sense: skipped too, never written somewhere else."""

@final
class Counters:
    """Sums since a launcher was bound: software accounting of what plans said and kernels reported, not what a bus carried.
    What nobody counts is `None`, never 0.
    """
    @property
    def staged(self) -> int:
        """Plans staged."""
    @property
    def launches(self) -> int:
        """Launches made, those that had nothing to do included; replays of graphs are not among them."""
    @property
    def jobs(self) -> int:
        """Jobs of the staged plans."""
    @property
    def bytes(self) -> int | None:
        """Bytes that the staged plans copy, or that digests read; `None` for row plans."""
    @property
    def done(self) -> int:
        """Plans that were carried out."""
    @property
    def superseded(self) -> int:
        """Plans that were overwritten before they ran."""
    @property
    def refused(self) -> int:
        """Plans whose table had another version."""
    @property
    def rows(self) -> int | None:
        """Rows copied by row plans; `None` for page plans."""
    @property
    def skipped(self) -> int | None:
        """Entries of slot mappings rightly skipped; `None` for page plans."""
    @property
    def bad(self) -> int:
        """Bad entries met on the device."""
    def as_dict(self) -> dict[str, int | None]:
        """All of them by name, for a metrics exporter."""

@final
class Launcher:
    """Stages plans of one type, and launches them on one stream.

    A staged plan takes effect in exactly one launch, or replay of a graph that the launcher was recorded into. `stage` and `launch`
    are hot calls: they take no lists. On a GPU they return before the work has run, in the order of the stream.
    """
    @staticmethod
    def bind(
        backend: Backend,
        memory: Registry,
        plan: Plan,
        *,
        slots: int = 4,
        workers: int | None = None,
        repeat: bool = False,
        stream: _Stream | None = None,
    ) -> Launcher:
        """Binds a launcher for plans with the type, the geometry and the capacity of `plan`, whose pools are registered in `memory`.

        `slots` (1 to 64) is how many plans may be in flight. `workers` is the most multiprocessors of a GPU, or warps on a CPU, that
        a launch may use; `None` leaves it to the backend. With `repeat`, a staged plan runs in every launch until the next one is
        staged; its ticket is done when it has run once, and says nothing of later runs. `stream` is as `set_stream` takes it. The launcher takes the page map of a row plan into its keeping: that plan alone
        can be staged, and by this launcher alone.

        Raises `RegistryError` where a pool is not registered or there is no memory for the tables, `LaunchError` for wrong options.
        """
    def stage(self, plan: Plan) -> Ticket:
        """Stages a plan: the next launch or replay carries it out. A plan staged before and not launched yet is superseded. Page-map
        changes take effect at once. Returns its `Ticket`.

        Raises `RingFullError` where all slots are in flight, `CaptureError` while the stream is being captured, `LaunchError` for a
        plan of another geometry or larger capacity, or another launcher's mirror plan, `RegistryError` where an array is not
        registered, `TypeError` for a plan of another type. What was staged before still runs then. Where the driver fails instead, this
        plan may run in its place, under no ticket, until another was staged: an empty one will do.
        """
    def launch(self) -> None:
        """Runs the kernel once on the staged plan. Without one that has not run yet it does nothing. On a GPU it returns before that
        has finished, on the CPU afterwards; the interpreter is released meanwhile.

        Raises `CaptureError` while the stream is being captured, `RegistryError` where a pool or an array was released: nothing ran
        then. Where the driver fails, the plan may run all the same: wait, and ask its ticket.
        """
    def record(self) -> None:
        """Records the kernel into the graph that its stream is being captured into, such as inside
        `torch.cuda.graph(graph, stream=stream)`. Each replay then carries out the plan that is staged at that time, once; a replay
        without one does nothing.

        Set the launcher's stream to the one that is captured before the capture begins, and to the one that replays are on after it
        has ended, where that is another. Replay on the launcher's stream, or in its order: each replay after the `stage` before it.
        Until it has finished, leave alone what it touches: the registry does not know of replays. A launcher may be recorded into any
        number of graphs. It, its registry and the tensors there live until `close`, or for ever; close it when no graph with it will
        be replayed any more.

        Raises `CaptureError` where the stream is not being captured, and as `launch` does.
        """
    def set_stream(self, stream: _Stream | None) -> None:
        """Uses another stream from now on: an integer (`cudaStream_t`; 0 is the default stream), `torch.cuda.current_stream()`, an object
        with `__cuda_stream__`, or `None` for a stream of the backend's own. It is one of the launcher's GPU. What is enqueued there
        comes after all that is on the one before; where both are the same stream nothing is done, so that an engine may say its stream
        in every step.

        The stream lives as long as launchers and the registry use it: the registry waits for it before memory goes. An object is kept
        with the registry, the last one of each type for a stream; what a number stands for, or an object that does not own its stream,
        is kept by the caller. Do not begin a capture of it in one thread while another one stages or launches on it.

        Raises `TypeError` for anything else, `CaptureError` while one of the two is being captured, `LaunchError` for a stream of the
        CPU backend, which has none. The launcher stays on its stream then.
        """
    def wait(self) -> None:
        """Waits until everything on its stream has finished; the interpreter is released meanwhile. Raises `CaptureError` while the stream
        is being captured, `ContextLostError` where some of it failed.
        """
    def state(self, ticket: Ticket) -> _TicketState:
        """What became of a ticket: a look at memory, and no call of a driver.

        `"pending"`: it may still run. `"done"`: its last copy is complete and visible to the host. `"superseded"`: overwritten before a
        launch saw it; plan its work again. `"refused"`: its table was of another version. `"lost"`: a fault took the context.
        `"unknown"`: settled too long ago to be remembered, or another launcher's.
        """
    def is_done(self, ticket: Ticket) -> bool:
        """Whether a ticket's state is `"done"`."""
    def report(self, ticket: Ticket) -> Report | None:
        """What the launch reported of a ticket's plan, or `None` where it is not done."""
    def digest(self, ticket: Ticket, number: DigestNumber) -> int:
        """The digest that a call added to the plan which was staged as `ticket`: an integer of 64 bits. Results are kept until the next
        plan is staged. Raises `LaunchError` before the ticket is done, and where there are no such results (any more).
        """
    def counters(self) -> Counters:
        """What this launcher has done."""
    @property
    def id(self) -> int:
        """What its tickets are told by: no other launcher of this process has the same."""
    @property
    def backend(self) -> Literal["cpu", "cuda"]:
        """`"cpu"` or `"cuda"`."""
    def close(self) -> None:
        """Waits for its stream and frees its tables. Later calls raise `LaunchError`. One that was recorded is closed when no graph with
        it will be replayed any more: such a replay would touch memory that is gone.

        Raises `CaptureError` where it cannot wait, because its stream is being captured, or is the default stream and another one is.
        It is open then.
        """
    def __enter__(self) -> Launcher: ...
    def __exit__(
        self, _class: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

@final
class CopyEngine:
    """Carries out page plans by a GPU's copy engines, on one stream: without a multiprocessor, and outside of captures.

    It has no table and no tickets: a plan is enqueued when it is copied, and a `CudaEvent` says when it is done. Copy engines are as
    fast as a kernel, or faster, where pieces have a megabyte or more: `chosen` says so of a plan. `stream` is as
    `Launcher.set_stream` takes it.
    """
    def __new__(cls, backend: Cuda, memory: Registry, *, stream: _Stream | None = None) -> CopyEngine: ...
    def copy(self, plan: PagePlan, calls: Literal["each", "batch"] = "each") -> CudaEvent:
        """Copies what a page plan says, after what is on the stream, and returns before that has finished: the stream passes the event
        then. `calls` is `"each"` (a call of the driver for each run) or `"batch"` (one for all, of drivers for CUDA 12.8 and later, on
        streams other than the default one).

        Raises `RegistryError` where a pool is not registered, `CaptureError` while the stream is being captured, `BackendError` where
        there are no batches, `TypeError` for a plan of rows or digests. Nothing was enqueued then.
        """
    def record(self, plan: PagePlan) -> None:
        """Records a page plan's copies into the graph that the stream is being captured into, a call for each run. Each replay copies the
        same blocks again. What `Launcher.record` asks for, this asks for too.

        Raises `CaptureError` where the stream is not being captured, and as `copy`.
        """
    def chosen(self, plan: PagePlan) -> Literal["kernel", "each", "batch"]:
        """What carries out a page plan best on this stream: `"kernel"` (a `Launcher`), `"each"` or `"batch"` (`copy` with that word). A
        kernel while the stream is being captured, for copies on the device, and for pieces that are small on average.

        Raises `TypeError` for a plan of rows or digests, and what the driver says.
        """
    def set_stream(self, stream: _Stream | None) -> None:
        """Uses another stream from now on; as `Launcher.set_stream`."""
    def close(self) -> None:
        """Lets its stream go, at once: what it has enqueued there goes on. Later calls raise `LaunchError`. One that was recorded is closed
        when no graph with it will be replayed any more.
        """

@final
class CudaEvent:
    """What a GPU's stream passes when all that was enqueued before it is done."""
    def is_passed(self) -> bool:
        """Whether the stream has passed it. It does not wait. Raises `ContextLostError` where something before it failed."""
    def wait(self) -> None:
        """Waits until the stream has passed it; the interpreter is released meanwhile. Raises as `is_passed`."""

@final
class Lifecycle:
    """Who may see which block, and what may be used again, of all requests of an engine: one, at its scheduler.

    It takes events and returns effects; ranks are told by `orders`, and answer with events (`Runner` does both). It has no clock, and
    does no input or output. Events, effects and orders are dictionaries with the names that Rust's `Event`, `Effect` and `Order` have
    in JSON: `{"event": "begin", "request": request, "tokens": 1}`. A request's id is the dictionary that `admitted` brings, a content
    hash 32 hexadecimal digits.

    `ranks` are the workers, 1 to 64; `writers` those that write host blocks (all unless said: right where each has its own heads; one
    where all have the same rows). `block_tokens` are the tokens of a block and of a page. `recurrence` is `"state"` where the model has
    states. There is room for so many `requests`, `blocks` and `pages`. `keep` sealed pages stay behind each one that is written.
    `draft_lag` is the number of steps after which a draft layer's rows are final (0 to 2). A lift that failed is tried again `retries`
    times.

    `restores` says what host blocks give back of all that their tokens have left behind: `"prefixes"`, where all of it is in them, in
    every group; `"requests"`, where some group has a block for each request, as rings do, or states that land on the device, so that
    nobody else finds a block; `"nothing"`, where some group is on the device alone, so that a lost rank takes preempted requests with it,
    too. `positions` are the most blocks of a request, where some group has pages for no more. Raises `LifecycleError` for options that
    cannot be.
    """
    def __new__(
        cls,
        *,
        ranks: int = 1,
        writers: Sequence[int] | None = None,
        block_tokens: int,
        recurrence: _Recurrence = "none",
        requests: int,
        blocks: int,
        pages: int,
        keep: int = 0,
        draft_lag: int = 0,
        retries: int = 1,
        restores: _Restores = "prefixes",
        positions: int | None = None,
    ) -> Lifecycle: ...
    @property
    def options(self) -> dict[str, Any]:
        """What it looks after, a dictionary: each rank's runner is bound with it, there or through a pipe."""
    def apply(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Takes an event, and returns what is to be done: a list of effects, in that order.

        Raises `ValueError` for what is no event, `LifecycleError` where it makes no sense now, or there is no room for what it asks.
        Nothing has changed then, but what was counted.
        """
    def orders(self) -> list[dict[str, Any]]:
        """What all ranks are told of the last event, in that order: for `Runner.hear`, there or through a pipe."""
    def request(self, request: dict[str, int]) -> dict[str, Any] | None:
        """What is known of a request, or `None` where it is over: `stage`, `begun` (steps), `next_token`, `durable` (tokens whose rows are
        safe in the host pool), `blocks` by position, and `pages` as `(position, page, state)`.
        """
    def find(self, hash: str) -> int | None:
        """The block that others find by a content hash, or `None`."""
    def users(self, block: int) -> int:
        """How many requests use a block."""
    def holder(self, page: int) -> dict[str, int] | None:
        """The request that holds a page, or `None`."""
    @property
    def free_pages(self) -> int:
        """Pages that nobody holds."""
    @property
    def free_blocks(self) -> int:
        """Blocks that nobody uses and nobody finds."""
    @property
    def available_blocks(self) -> int:
        """Blocks that a request could have: free ones, and those that others find and nobody uses."""
    def counters(self) -> dict[str, int]:
        """Sums since it was made, by name."""
    def __len__(self) -> int: ...

@final
class GroupFrames:
    """Which blocks and pages of a group a lifecycle's numbers stand for: entry `n` of a list is the group's for number `n`.

    A group that lifts its tail has `blocks` by the lifecycle's blocks and `pages` by its pages. One that has all of its pages on the
    device has `each` pages for each slot of a request, by position. A ring has both by the slots of requests, a state its pages by the
    slots of requests. Lists are sequences of integers or one-dimensional integer arrays on the host.
    """
    def __new__(cls, group: GroupKey, blocks: _Ids, pages: _Ids, *, each: int | None = None) -> GroupFrames: ...

@final
class Staged:
    """What a step's plans have in them."""
    @property
    def lifts(self) -> int:
        """Requests that are lifted."""
    @property
    def write_backs(self) -> int:
        """States and pages that are written back."""
    @property
    def mirrors(self) -> int:
        """Requests whose step is mirrored."""
    @property
    def failed(self) -> PageliftError | None:
        """Why some of it could not be planned or staged, an exception, or `None`. The rank answers that it has failed, and the step goes
        on without.
        """

@final
class Runner:
    """One rank's steps: what they lift, mirror and write back, by one launch each.

    In each step the rank hears its orders, stages its plans, and launches them around its forward, or replays the graph that they were
    recorded into. It polls when it likes, and its events go to the scheduler's `Lifecycle`. None of it waits for a launch.
    """
    @staticmethod
    def bind(
        backend: Backend,
        memory: Registry,
        geometry: Geometry,
        frames: Sequence[GroupFrames],
        options: dict[str, Any],
        *,
        rank: int = 0,
        mode: _Mode = "whole",
        jobs: int = 384,
        list_entries: int = 8192,
        bindings: int = 16,
        changes: int = 1024,
        slots: int = 4,
        lift_workers: int | None = None,
        write_back_workers: int | None = None,
        mirror_workers: int | None = None,
        stream: _Stream | None = None,
    ) -> Runner:
        """Binds a launcher for each of a rank's plans.

        `frames` say for each group which blocks and pages the lifecycle's numbers stand for. `options` are `Lifecycle.options` of the
        lifecycle whose orders it takes, and `rank` is one of its ranks: whether it writes host blocks, the lifecycle's `writers` say.
        `mode` is which rows of a partly filled page are lifted. `jobs`, `list_entries`, `bindings` and `changes` are the room of the
        plans, and there is always room for a change of each entry of the page maps where the rank writes. `slots` (1 to 64) is how many steps the host may be ahead, and the three
        `workers` are the most multiprocessors of each kind of launch. `stream` is as `set_stream` takes it.

        Raises `PlanError` where a group that is lifted has no frames or others than it needs, and for options that cannot be a
        lifecycle's, or not one's with this rank; `ValueError` for what is no options; and as `Launcher.bind` does.
        """
    def bind_rows(self, group: GroupKey, binding: RowBinding) -> None:
        """Mirrors the rows of a paged or ring group that steps write, as `binding` will say on the device: `MirrorPlan.bind` of the
        runner's own plan. Where the rank writes host blocks, each such group that is written back has to be bound before a step begins.
        Raises as that does.
        """
    def clear_bindings(self) -> None:
        """Forgets all bindings of rows."""
    def hear(self, order: dict[str, Any]) -> None:
        """Takes an order, a dictionary of `Lifecycle.orders`. Orders come in the scheduler's order, each exactly once; those that came before a
        step begins are carried out before its forward.

        Raises `ValueError` for what is no order, `PlanError` where a page cannot be mapped or unmapped, or the order is of another
        lifecycle's request: the rank is lost then.
        """
    def stage(self, lift_bytes: int | None = None) -> Staged:
        """Plans the step and stages it: what is written back, lifts of at most `lift_bytes` bytes (one at least, where any waits; `None`
        is all), and mirrors. A step in which nothing is computed is staged too, until `is_idle`.

        Raises `RingFullError` and `CaptureError` where some of it can only be staged later: no forward of this step may run before a call
        succeeds. Raises `PlanError` where a step has begun, and rows that it writes are to be mirrored and not bound: nothing has changed
        then. Raises `LaunchError` where the rank is lost.
        """
    def before_forward(self) -> None:
        """Launches what comes before a forward: what is written back, and lifts. Nothing, where nothing was staged since.

        Raises what the launches do. What was to be launched has failed then, and the rank answers so; the step may go on. Raises
        `LaunchError` where the rank is lost.
        """
    def after_forward(self) -> None:
        """Launches what comes after a forward: its mirror. Raises what the launch does; what the step wrote is then written back by a later
        one. Raises `LaunchError` where the rank is lost.
        """
    def record_before_forward(self) -> None:
        """Records what comes before a forward into the graph that the stream is being captured into. A step then is `stage` and `replay`.
        What `Launcher.record` asks for, this asks for too. Raises as that does, and `LaunchError` where the rank is lost.
        """
    def record_after_forward(self) -> None:
        """Records what comes after a forward; as `record_before_forward`."""
    def replay(self, replay: Callable[[], object]) -> None:
        """Runs the graph into which both were recorded, by calling `replay`, such as `graph.replay`: a function that does nothing else.

        Raises what `replay` does, `RegistryError` where a pool or an array is not registered any more, and `LaunchError` where `replay`
        itself launches or uses the registry. What is staged stays so: the engine replays again, or gives the rank up. Raises `LaunchError`
        too where the rank is lost, and as `stage` where a launch or a staging has failed before: what is left of it is overwritten first.
        """
    def poll(self) -> list[dict[str, Any]]:
        """Says what became of everything that has finished by now: a list of events, for `Lifecycle.apply`. It does not wait."""
    def wait(self) -> None:
        """Waits until every launch has finished, without the interpreter."""
    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do, and nothing in flight."""
    @property
    def is_lost(self) -> bool:
        """Whether it does nothing more, because its GPU has failed, or it could not do as it was told."""
    def set_stream(self, stream: _Stream | None) -> None:
        """Uses another stream from now on, the one that its forwards run on; as `Launcher.set_stream`."""
    def counters(self, lane: Literal["lift", "write-back", "mirror"]) -> Counters:
        """What was staged and launched for a kind of work: `"lift"`, `"write-back"` or `"mirror"`."""
    def close(self) -> None:
        """Waits for its stream and frees its tables; as `Launcher.close`."""
