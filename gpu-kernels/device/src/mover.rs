//! What moves the bytes: the one thing in which two instances of a kernel differ.

/// Moves runs of bytes with the lanes of one warp.
///
/// All lanes of the warp call each method, in the same order and with the same arguments; a mover divides the work
/// among them. A run is complete, and may be shown to others, after [`Mover::finish`] *and* whatever orders the warp
/// before its reader, such as [`arrive_last`](crate::arrive_last).
///
/// `width` is a promise of the caller: 16, 8, 4, 2 or 1, and source, destination and number of bytes are all multiples
/// of it. It is decided where both sides are known, never from one of them; no mover has to guess, and none has a tail
/// shorter than an access.
pub trait Mover {
    /// A mover for the calling warp.
    ///
    /// # Safety
    ///
    /// 1. Each thread makes at most one mover in a launch, and all lanes of its warp make theirs.
    /// 2. The launch gave the block the shared memory that this mover asks for.
    unsafe fn new() -> Self;

    /// Begins to copy `bytes` bytes.
    ///
    /// # Safety
    ///
    /// 1. `width` keeps the promise above.
    /// 2. `bytes` bytes at `source` may be read, and nobody writes them before the launch has ended.
    /// 3. `bytes` bytes at `destination` may be written, and nobody else touches them before the launch has ended.
    /// 4. All lanes of the warp make this call.
    unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32);

    /// Begins to write `bytes` zeros.
    ///
    /// # Safety
    ///
    /// 1. `width` keeps the promise above; there is no source.
    /// 2. `bytes` bytes at `destination` may be written, and nobody else touches them before the launch has ended.
    /// 3. All lanes of the warp make this call.
    unsafe fn zero(&mut self, destination: u64, bytes: u32, width: u32);

    /// Returns when all that was begun has been written by the calling lane.
    ///
    /// # Safety
    ///
    /// 1. All lanes of the warp make this call, and none uses the mover afterwards.
    unsafe fn finish(&mut self);
}
