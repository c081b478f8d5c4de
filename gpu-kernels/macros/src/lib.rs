//! The attribute that makes a Rust function a kernel.
//!
//! From one definition come the PTX entry, the function that runs it on the CPU, and a typed handle by which a
//! backend launches it. The attribute has the name and form of rust-cuda's `cuda_std::kernel`, so that a kernel
//! compiles with either.

mod expand;

use proc_macro::TokenStream;

/// Makes a kernel of `pub unsafe fn name(args: Args) { .. }`.
///
/// | where | what it becomes |
/// |---|---|
/// | `nvptx64` | `#[unsafe(no_mangle)] pub unsafe extern "ptx-kernel" fn name(args: Args)`: an entry of the PTX |
/// | elsewhere | the function as it is written, and `pub enum name {}`, which implements `pagelift_device::Kernel` |
///
/// Function and handle share their name, for they live in different namespaces: `backend.launch::<name>(args)` can
/// only be given the argument struct that the kernel was written for.
///
/// A kernel takes exactly one parameter, by value: one `#[repr(C)]` struct, which host, emulation and driver agree on
/// byte by byte. It is not generic, for a PTX entry has one name; write one kernel per instance of a generic body.
///
/// The crate that uses it depends on `pagelift-device`, and for `nvptx64` it asks for `feature(abi_ptx)`.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel(arguments.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
