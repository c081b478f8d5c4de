//! How the shared library is linked: its name, by which programs ask for it, changes with the ABI; and it is never unloaded.

use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=src/lib.rs");
    // Worker threads end on their own, a moment after their backend was freed or never: `dlclose` must not take their code away.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let source = fs::read_to_string("src/lib.rs").unwrap_or_default();
    let number =
        source.split_once("pub const PAGELIFT_ABI: u32 = ").and_then(|(_, rest)| rest.split_once(';'));
    match number {
        Some((number, _)) => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpagelift.so.{number}"),
        None => println!("cargo::error=src/lib.rs does not say PAGELIFT_ABI as this script reads it"),
    }
}
