//! The typed handle of a kernel.

/// A kernel as the host knows it: its name in the PTX, its argument struct, and the function that runs it on the CPU.
///
/// `#[kernel]` implements it for an uninhabited type that bears the kernel's name. It is only ever named as a type,
/// so that a backend's `launch::<pagelift_copy_rows>(args)` takes that kernel's arguments and no other's.
pub trait Kernel {
    /// The kernel's only parameter: a `#[repr(C)]` struct, passed by value.
    type Args: Copy + Send + Sync;

    /// Name of the entry in the PTX.
    const NAME: &'static str;

    /// Runs the kernel as the current thread of an emulated launch.
    ///
    /// # Safety
    ///
    /// 1. The conditions of the kernel itself hold for `args`.
    unsafe fn run(args: Self::Args);
}
