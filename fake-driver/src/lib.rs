//! A CUDA driver in software, so that the CUDA backend is tested where there is no GPU.
//!
//! It has the calls that pagelift makes, and those that an engine beside it makes, by their names in `libcuda`. Memory is
//! the host's, kernels are run by the emulation. It is as hard on its users as NVIDIA's manual allows:
//!
//! | what | how |
//! |---|---|
//! | order | work on a stream runs when somebody waits for it, and no earlier, unless a [`Pace`] says so; branches of a graph run in any order |
//! | memory | new memory holds rubbish; host memory has another address on the device than on the host; what a copy or a launch touches has to be there *when it runs*, else the context is lost |
//! | captures | a call that the manual forbids while a capture lasts fails, and spoils it |
//! | contexts | calls are made in the thread's current context, and handles are good in their own |
//! | faults | any call can be made to [fail](Machine::fail), by its number |
//! | leaks | [`Machine::live`] counts what was made and not unmade |
//!
//! A [`Machine`] is one computer with some GPUs. Threads see the one that they have [entered](Machine::enter), so that
//! tests beside each other have one each.
//!
//! ```
//! use pagelift_fake_driver::Machine;
//! let machine = Machine::new(1);
//! assert!(machine.symbol("cuInit").is_some() && machine.symbol("cuMakeCoffee").is_none());
//! assert_eq!(machine.live(), Default::default());
//! ```

mod api;
mod capture;
mod kernels;
#[cfg(feature = "library")]
mod library;
mod machine;
mod memory;
mod stream;
mod words;

pub use machine::{Live, Machine, Pace, in_a_call};
