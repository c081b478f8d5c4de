//! The CPU: the same names, for ordinary memory.
//!
//! With 32 lanes a warp this is the *emulation*: it does piece by piece what the lanes of a GPU do, asserts what the
//! hardware would trap on, and delays what the hardware may delay. With one lane a warp it is the *engine* for machines
//! without a GPU: it asserts nothing and moves a run in one go.

pub mod emulation;
pub(crate) mod lanes;
pub(crate) mod pipeline;
pub(crate) mod sync;
pub mod thread;
pub(crate) mod words;

/// Whether the emulation is running, and not the engine.
pub(crate) fn emulating() -> bool {
    thread::lanes_per_warp() != 1
}
