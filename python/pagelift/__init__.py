"""Lift, mirror and seal KV-cache pages between a pinned host pool and a GPU, inside captured graphs.

The way of the data is: block lists, a plan, one launch, pages.

    layout = pagelift.PagedLayout.mla_bf16(64)        # what lies inside a page
    memory = pagelift.Registry()                      # which tensors kernels may touch
    builder = pagelift.GeometryBuilder()              # where blocks of each group lie
    plan = pagelift.RestorePlan(geometry)             # what one launch copies, checked
    launcher = pagelift.Launcher.bind(backend, memory, plan)
    ticket = launcher.stage(plan)                     # one copy into a fixed table
    launcher.launch()                                 # one kernel

Names, arguments and errors are those of the Rust library; Rust's `MemoryError` is `RegistryError` here. Counts and ids are
integers, sizes are bytes. Every error of the library is a `PageliftError`; arguments of a wrong type or out of an integer's
range are `TypeError`, `ValueError` and `OverflowError`, as everywhere in Python.

Objects may be shared by threads: calls on one object take turns, and the interpreter is released while a call waits, copies
or launches.
"""

from ._pagelift import (
    Backend,
    BackendError,
    BlockSpan,
    Calibration,
    CapacityError,
    CaptureError,
    CompactRouteKey,
    ContextLostError,
    CopyEngine,
    Counters,
    Cpu,
    Cuda,
    CudaEvent,
    Decision,
    DigestKey,
    DigestNumber,
    DigestPlan,
    DriverError,
    Geometry,
    GeometryBuilder,
    GeometryError,
    GroupFrames,
    GroupKey,
    HostPool,
    HostPoolSpec,
    Import,
    ImportGroup,
    ImportId,
    LaunchError,
    Launcher,
    LayoutError,
    Lifecycle,
    LifecycleError,
    LiftProgress,
    MirrorPlan,
    NoDriverError,
    Pace,
    Paces,
    PagedLayout,
    PageliftError,
    PageMap,
    PagePlan,
    Plan,
    PlanError,
    PoolId,
    PromptSpan,
    Region,
    Registry,
    RegistryError,
    Report,
    Reservations,
    RestorePlan,
    RingFullError,
    RingLayout,
    RouteKey,
    RowBinding,
    RowPlan,
    Runner,
    Segment,
    SharedMemory,
    SideKey,
    SideSpec,
    SpanError,
    Staged,
    StateLayout,
    TensorError,
    Ticket,
    WriteBackPlan,
    __version__,
    decide,
)

__all__ = [name for name in dir() if not name.startswith("_")] + ["__version__"]
