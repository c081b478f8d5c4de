//! One error over all domains.

pub use pagelift_planner::error::{
    GeometryError, LayoutError, LifecycleError, OptionsError, PlanError, SpanError,
};
use pagelift_planner::id::Ticket;
use pagelift_planner::lifecycle::Rank;
use thiserror::Error as ThisError;

/// Anything that can go wrong in this crate. The variant says in which domain.
///
/// ```
/// use pagelift::error::MemoryError;
/// let error = pagelift::Error::from(MemoryError::Released);
/// assert!(error.to_string().contains("released"));
/// ```
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A layout that cannot be.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Prompt arithmetic that cannot be.
    #[error(transparent)]
    Span(#[from] SpanError),
    /// Pools, sides or groups that do not fit together.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A plan that may not be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An event that a lifecycle does not take.
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    /// Memory that is not there.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A launcher that cannot take a plan.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A backend that cannot run.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Error {
    /// Whether the same call will be possible later, without a change of what was asked: when a launch has freed a slot, a
    /// capture has ended, or other requests have.
    ///
    /// ```
    /// use pagelift::error::{BackendError, MemoryError};
    /// assert!(pagelift::Error::from(BackendError::Capturing { what: "a launch" }).is_transient());
    /// assert!(!pagelift::Error::from(MemoryError::Released).is_transient());
    /// ```
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        use BackendError::{Capturing, CapturingAnother, WaitsForCapture};
        match self {
            Self::Lifecycle(error) => error.is_transient(),
            Self::Launch(LaunchError::RingFull { .. })
            | Self::Backend(Capturing { .. } | CapturingAnother | WaitsForCapture) => true,
            _ => false,
        }
    }
}

/// Memory that is not there.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum MemoryError {
    /// A region that was released, or belongs to another registry.
    #[error("the region was released, or belongs to another registry")]
    Released,
    /// Memory that kernels would touch and that is not registered.
    #[error(
        "{what} needs {place} memory {start:#x}..{end:#x}, which is not registered; allocate or adopt it first"
    )]
    Unregistered {
        /// Which pool or array.
        what: String,
        /// `host` or `device`.
        place: &'static str,
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// Memory that is registered, but not for the kernels of this backend.
    #[error(
        "{what} needs memory {start:#x}..{end:#x}, which this backend's kernels do not reach; allocate it by this backend, or \
         register it there"
    )]
    OutOfReach {
        /// Which pool or array.
        what: String,
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// A region that shares bytes with another one.
    #[error(
        "memory {start:#x}..{end:#x} shares bytes with the region at {other:#x}, which is registered already"
    )]
    Overlaps {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
        /// Where the other region begins.
        other: u64,
    },
    /// Memory at no address.
    #[error("memory at address 0 cannot be registered")]
    Null,
    /// Bytes that a region does not have.
    #[error("{length} bytes from offset {at} on are not inside a region of {bytes}")]
    Outside {
        /// The first byte's offset.
        at: u64,
        /// How many.
        length: u64,
        /// Bytes of the region.
        bytes: u64,
    },
    /// Not enough memory.
    #[error("{bytes} bytes of {place} memory cannot be allocated")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// `host` or `device`.
        place: &'static str,
    },
    /// A host pool without blocks, or of blocks without bytes.
    #[error("a host pool has {blocks} blocks of {block_bytes} bytes; both must be at least 1")]
    EmptyPool {
        /// Blocks asked for.
        blocks: u32,
        /// Bytes of each.
        block_bytes: u64,
    },
    /// Chunks in which a host pool cannot be registered.
    #[error(
        "chunks of {chunk_bytes} bytes do not suit {blocks} blocks of {block_bytes}: a chunk holds at least one block, at most \
         {most_bytes} bytes, and a pool has at most {most_chunks} chunks"
    )]
    Chunks {
        /// Bytes of a chunk, at most.
        chunk_bytes: u64,
        /// Blocks of the pool.
        blocks: u32,
        /// Bytes of each.
        block_bytes: u64,
        /// The most bytes that a chunk may have.
        most_bytes: u64,
        /// The most chunks that a pool may have.
        most_chunks: u64,
    },
    /// Chunks begin at pages of memory and end with a block, and no block ends at a page.
    #[error(
        "memory at {address:#x} cannot be registered in chunks of at most {chunk_bytes} bytes: no block of {block_bytes} bytes \
         ends at a multiple of {page_bytes} there; begin at one, pad the blocks, or allow larger chunks"
    )]
    NoSeam {
        /// Where the pool begins.
        address: u64,
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of a chunk, at most.
        chunk_bytes: u64,
        /// What chunks begin at multiples of.
        page_bytes: u64,
    },
    /// Memory of which somebody has registered a part.
    #[error(
        "memory {start:#x}..{end:#x} is registered in part: {part_start:#x}..{part_end:#x} is; unregister that, or choose chunks \
         that lie inside or outside of it"
    )]
    PartlyRegistered {
        /// First byte of the chunk.
        start: u64,
        /// One past its last.
        end: u64,
        /// First registered byte of it.
        part_start: u64,
        /// One past the last registered one from there on.
        part_end: u64,
    },
    /// Memory that was mapped just now, and that the driver holds as registered since before: its kernels reach other pages
    /// there.
    #[error(
        "memory {start:#x}..{end:#x} was mapped just now, and the driver holds it as registered: somebody unmapped memory \
         there without unregistering it first"
    )]
    StaleRegistration {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// An address that is to be a GPU's memory, and is not.
    #[error(
        "memory {start:#x}..{end:#x} is not all of GPU {gpu}: at {at:#x} the driver knows {}; pass memory that was allocated on that GPU",
        found.map_or_else(|| "none".to_owned(), |found| format!("memory of GPU {found}"))
    )]
    NotOnGpu {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
        /// The GPU that was meant.
        gpu: u32,
        /// The byte that is not there.
        at: u64,
        /// The GPU that it is on instead, if any.
        found: Option<u32>,
    },
    /// Memory that kernels may not write.
    #[error("memory {start:#x}..{end:#x} is read-only; a host pool is read and written")]
    ReadOnly {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// Addresses at which nothing lies.
    #[error("nothing is mapped at {start:#x}..{end:#x}")]
    NotMapped {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
    },
    /// Memory that is written back to a file on a disk, and cannot be pinned.
    #[error(
        "memory {start:#x}..{end:#x} is a mapping of `{file}`, which cannot be pinned; use a memfd, or a file in /dev/shm or \
         hugetlbfs"
    )]
    FileBacked {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
        /// The file.
        file: String,
    },
    /// Shared memory of another size than the pool's.
    #[error(
        "the shared memory has {found} bytes, the pool needs {expected}; both sides give the same blocks and chunks"
    )]
    SharedSize {
        /// Bytes of the pool.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// The operating system refused a call.
    #[error("{call} failed: {cause}")]
    System {
        /// The call.
        call: &'static str,
        /// What the system said.
        cause: String,
    },
}

/// A launcher that cannot take a plan.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum LaunchError {
    /// The plan was made for another geometry than the launcher was bound to.
    #[error("the plan belongs to another geometry than this launcher was bound to")]
    OtherGeometry,
    /// The registry is another one than the launcher was bound to.
    #[error("the registry is another one than this launcher was bound to")]
    OtherRegistry,
    /// The plan may outgrow the table.
    #[error(
        "the plan's table has {needed} bytes at capacity, the launcher's has {room}; bind one with the same capacity"
    )]
    TableTooSmall {
        /// Bytes of the plan's table.
        needed: usize,
        /// Bytes of the launcher's.
        room: usize,
    },
    /// Every staging slot holds a plan that may still run.
    #[error("all {slots} staging slots are in flight; launch, or wait until {oldest} is done")]
    RingFull {
        /// Slots of the ring.
        slots: u32,
        /// The ticket that is waited for.
        oldest: Ticket,
    },
    /// A ring needs a slot.
    #[error("a launcher needs at least 1 staging slot")]
    NoSlots,
    /// A ring needs a few slots only: the host is a few steps ahead.
    #[error("a launcher has at most {most} staging slots; {slots} were asked for")]
    TooManySlots {
        /// Slots asked for.
        slots: u32,
        /// Slots that a launcher may have.
        most: u32,
    },
    /// The plan's page maps are kept by another launcher.
    #[error(
        "the plan's page maps are kept by another launcher; stage it there, or bind a new launcher with it"
    )]
    OtherLauncher,
    /// Results add up, so that a plan which has any runs once.
    #[error("a repeated plan would add its digests up again and again; bind its launcher without `repeat`")]
    Repeated,
    /// The plan may have more results than there is room for.
    #[error(
        "the plan has up to {needed} results, the launcher has room for {room}; bind one with the same capacity"
    )]
    TooManyResults {
        /// Results of the plan at its capacity.
        needed: usize,
        /// Those that the launcher has room for.
        room: usize,
    },
    /// Digests are complete when their ticket is done.
    #[error("the digests of {ticket} are not complete; launch the plan, or wait until it is done")]
    DigestsPending {
        /// The plan's ticket.
        ticket: Ticket,
    },
    /// Digests are kept until the next plan is staged.
    #[error(
        "there are no digests of {ticket}: it was not carried out, or another plan was staged since; stage it again"
    )]
    DigestsGone {
        /// The ticket asked for.
        ticket: Ticket,
    },
    /// The number is of another plan.
    #[error(
        "the digest is none of those of {ticket}: its number was given by another plan, before the plan was cleared, or \
         after it was staged"
    )]
    OtherDigest {
        /// The plan's ticket.
        ticket: Ticket,
    },
    /// A rank that does nothing more.
    #[error(
        "{rank} is lost, because its GPU has failed or it could not do as it was told; make a new runner for it, and tell the \
         scheduler that it has joined"
    )]
    RankLost {
        /// The rank.
        rank: Rank,
    },
}

/// A backend that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum BackendError {
    /// A backend gave other memory than it was asked for.
    #[error(
        "backend `{name}` was asked for {needed} bytes, 16-byte aligned, and gave {found} at {address:#x}"
    )]
    Allocation {
        /// The backend.
        name: &'static str,
        /// Bytes asked for.
        needed: u64,
        /// Bytes given.
        found: u64,
        /// Where they begin.
        address: u64,
    },
    /// A launch shape that cannot be.
    #[error("a launch of {blocks} blocks of {warps} warps of {lanes} lanes; expected 1 to {most} threads")]
    Shape {
        /// Blocks of the launch.
        blocks: u32,
        /// Warps of a block.
        warps: u32,
        /// Lanes of a warp.
        lanes: u32,
        /// The most threads.
        most: u32,
    },
    /// There is no NVIDIA driver, or one that is too old.
    #[error("no usable NVIDIA driver: {cause}; install one, or use the backend `cpu`")]
    NoDriver {
        /// What the system said.
        cause: String,
    },
    /// There is no such GPU.
    #[error("there is no GPU {ordinal}: the driver knows {devices}")]
    NoDevice {
        /// The GPU asked for.
        ordinal: u32,
        /// GPUs that there are.
        devices: u32,
    },
    /// A GPU that cannot run the kernels.
    #[error("{name} cannot run the kernels: they need {needs}")]
    Device {
        /// The GPU.
        name: String,
        /// What it lacks.
        needs: &'static str,
    },
    /// The driver refused a call.
    #[error("{call} failed with {code}, {name}: {text}")]
    Driver {
        /// The call.
        call: &'static str,
        /// The driver's number.
        code: i32,
        /// Its name.
        name: String,
        /// Its meaning.
        text: String,
    },
    /// A fault took the context, and all memory of it. Any earlier launch of the process may have caused it, also another
    /// library's.
    #[error(
        "the GPU's context is lost: {call} failed with {code}, {name}: {text}; the cause may be any earlier launch of this \
         process"
    )]
    ContextLost {
        /// The call that found out.
        call: &'static str,
        /// The driver's number.
        code: i32,
        /// Its name.
        name: String,
        /// Its meaning.
        text: String,
    },
    /// Work for a context that was lost before.
    #[error("the GPU's context was lost by an earlier fault; restart the process")]
    ContextGone,
    /// The driver's compiler refused the kernels.
    #[error("the driver cannot load the kernels for {target}: {log}")]
    Module {
        /// The PTX.
        target: &'static str,
        /// What it said.
        log: String,
    },
    /// Work that cannot be recorded, on a stream that is being captured.
    #[error("the stream is being captured: {what} has to be enqueued before, or on another stream")]
    Capturing {
        /// The work.
        what: &'static str,
    },
    /// A driver that takes copies one by one only.
    #[error("the driver has no batches of copies, which came with CUDA 12.8; ask for each copy")]
    NoBatches,
    /// A batch on a stream that takes none.
    #[error(
        "the driver takes no batch of copies on the default stream; use a stream of your own, or ask for each copy"
    )]
    BatchOnDefaultStream,
    /// A batch of copies into a capture.
    #[error("the driver captures no batch of copies; record each copy by itself")]
    BatchInCapture,
    /// The time of an event that is not kept.
    #[error(
        "the end of a copy has no time; record an event of your own, by `Cuda::event`, before and after it"
    )]
    NoTime,
    /// Recording on a stream that is not being captured.
    #[error("the stream is not being captured; begin a capture, or launch")]
    NotCapturing,
    /// A stream of another GPU.
    #[error("the stream is of GPU {found}, and the work is for GPU {expected}; use a stream of that GPU")]
    OtherGpu {
        /// The GPU that the memory and the kernels are on.
        expected: u32,
        /// The stream's GPU.
        found: u32,
    },
    /// A stream that another one may be captured for: work on the default stream would have to wait for it.
    #[error(
        "another stream of the GPU is being captured, and the default stream would have to wait for it; end that capture first, \
         or use a stream of your own"
    )]
    CapturingAnother,
    /// The default stream of a thread, which is another one in each thread.
    #[error(
        "stream 2 is the calling thread's default stream, and another one in any other thread; use a stream that all threads \
         know by one handle"
    )]
    PerThreadStream,
    /// Work is to be waited for on a stream that is being captured.
    #[error("a stream that is being captured cannot be waited for; end the capture first")]
    WaitsForCapture,
    /// A GPU that does not order what others write into its memory, and a driver that cannot wait for it.
    #[error(
        "neither this GPU nor its driver promises that launches see what others have written into the GPU's memory; let \
         imports land in host memory"
    )]
    RemoteWrites,
    /// Worker threads could not be started.
    #[error("{threads} worker threads cannot be started: {cause}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        cause: String,
    },
}
