//! What P does on a GPU, in software.

use std::path::Path;

use pagelift::backends::{Cuda, CudaDriver};
use pagelift_cli::rehearse;
use pagelift_fake_driver::Machine;

use crate::support::small;

#[test]
fn pools_of_a_gpu_are_filled_by_a_copy_for_each_extent_and_not_for_each_row() {
    let machine = Machine::new(1);
    // SAFETY: (1) the machine's calls have the driver's signatures and keep its promises, and are functions of this program.
    let driver = unsafe { CudaDriver::from_symbols(|name| machine.symbol(name)) }.unwrap();
    let gpu = Cuda::open_with(&driver, 0).unwrap();
    for name in ["gqa", "gqa-scales", "hybrid", "split-pages"] {
        for seed in 0..4 {
            let _: Vec<&str> = machine.calls();
            let filled = rehearse::prefill(&gpu, Path::new(&small(&format!("{name}.json"))), seed).unwrap();
            assert!(filled.bytes > 0);
            let copies = machine.calls().iter().filter(|call| call.starts_with("cuMemcpyHtoD")).count();
            // Once with what was there before, and once for each group that has rows there.
            let most = filled.extents * (1 + filled.groups);
            assert!((filled.extents..=most).contains(&copies), "{name}, {seed}: {copies} copies, {filled:?}");
        }
    }
}
