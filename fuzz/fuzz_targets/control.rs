//! Conversations of two engines with something wrong: nothing panics, nothing wrong is taken, nothing is left behind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelift_cases::control;
use pagelift_cases::draw::Draw;

fuzz_target!(|bytes: &[u8]| {
    control::run(&mut Draw::from_bytes(bytes));
});
