//! Sequences of planning calls, compared with a naive model after each.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelift_cases::draw::Draw;
use pagelift_cases::plans;

fuzz_target!(|bytes: &[u8]| {
    plans::run(&mut Draw::from_bytes(bytes));
});
