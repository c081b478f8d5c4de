//! Kernels: run by the emulation.

use std::ffi::c_void;

use pagelift_abi::{DigestArgs, MapArgs, PagesArgs, RowsArgs};
use pagelift_device::Kernel;
use pagelift_device::emulation::{Shape, run};
use pagelift_kernels::{pagelift_apply_map, pagelift_copy_pages, pagelift_copy_rows, pagelift_digest};

macro_rules! entries {
    ($($entry:ident: $kernel:ident ($args:ident: $($address:ident),*);)*) => {
        /// A function of a module.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Entry {
            $($entry,)*
            /// One that takes nothing and does nothing.
            Empty,
        }

        /// A function and its arguments.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Work {
            $($entry($args),)*
            Empty,
        }

        impl Entry {
            pub fn named(name: &str) -> Self {
                match name {
                    $(_ if name == $kernel::NAME => Self::$entry,)*
                    _ => Self::Empty,
                }
            }

            /// Copies the arguments of a launch.
            ///
            /// # Safety
            /// 1. `arguments` is an array with an address of the function's only argument, where it has one.
            pub unsafe fn with(self, arguments: *const *mut c_void) -> Work {
                match self {
                    // SAFETY: (1) is ours.
                    $(Self::$entry => Work::$entry(unsafe { (*arguments).cast::<$args>().read() }),)*
                    Self::Empty => Work::Empty,
                }
            }
        }

        impl Work {
            /// The addresses that it reads or writes whatever is in its tables.
            pub fn addresses(&self) -> Vec<u64> {
                match self {
                    $(Self::$entry(args) => vec![$(args.$address),*],)*
                    Self::Empty => Vec::new(),
                }
            }

            /// Runs all threads of a launch, in an order that `seed` decides.
            ///
            /// # Safety
            /// 1. The kernel's conditions hold.
            pub unsafe fn run(&self, shape: Shape, seed: u64) {
                match self {
                    // SAFETY: (1) is ours.
                    $(Self::$entry(args) => unsafe { run::<$kernel>(shape, seed, *args) },)*
                    Self::Empty => {}
                }
            }
        }
    };
}

entries! {
    Pages: pagelift_copy_pages (PagesArgs: table, progress);
    Rows: pagelift_copy_rows (RowsArgs: table, progress);
    Digest: pagelift_digest (DigestArgs: table, progress);
    Map: pagelift_apply_map (MapArgs: table);
}
