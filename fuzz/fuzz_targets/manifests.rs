//! Texts that may be manifests: refused in words, or played and verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagelift_cases::draw::Draw;
use pagelift_cases::manifests;

fuzz_target!(|bytes: &[u8]| {
    manifests::run(&mut Draw::from_bytes(bytes));
});
