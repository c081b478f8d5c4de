//! Plans run by the CPU's and the emulated kernels over random memory, compared with a naive reference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelift_cases::draw::Draw;
use pagelift_cases::tables;

fuzz_target!(|bytes: &[u8]| {
    tables::run(&mut Draw::from_bytes(bytes));
});
