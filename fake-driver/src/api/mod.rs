//! The calls, by their names in the driver's library.

/// Calls with these names. Pointers and handles are as the driver's manual asks for.
macro_rules! api {
    ($($symbol:literal $name:ident($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {
        $(
            #[cfg_attr(feature = "library", unsafe(export_name = $symbol))]
            #[allow(unused_unsafe, reason = "not every call touches what it is given")]
            unsafe extern "C" fn $name($($argument: $type),*) -> ::std::ffi::c_int {
                // SAFETY: pointers and handles are as the driver's manual asks for: whoever calls keeps to it.
                $crate::machine::call($symbol, |$call: &mut $crate::machine::Call<'_>| -> $crate::api::Answer { unsafe { $body } })
            }
        )*

        /// One of these calls by its name.
        pub(super) fn symbol(name: &str) -> Option<*mut ::std::ffi::c_void> {
            Some(match name {
                $($symbol => $name as *mut ::std::ffi::c_void,)*
                _ => return None,
            })
        }
    };
}

mod copies;
mod device;
mod graph;
mod memory;
mod module;
mod stream;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{NonNull, without_provenance_mut};

use crate::words::{INVALID_VALUE, words};

type Answer<T = ()> = Result<T, c_int>;
type Handle = *mut c_void;

/// A call by its name.
pub(crate) fn symbol(name: &str) -> Option<NonNull<c_void>> {
    let of = [device::symbol, module::symbol, memory::symbol, copies::symbol, stream::symbol, graph::symbol];
    let function = match name {
        "cuGetErrorName" => error_name as *mut c_void,
        "cuGetErrorString" => error_text as *mut c_void,
        _ => of.iter().find_map(|symbol| symbol(name))?,
    };
    NonNull::new(function)
}

/// Stores a result.
///
/// # Safety
/// 1. `to` is null, or may be written.
unsafe fn store<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: (1) is ours.
    unsafe { to.write(value) };
    Ok(())
}

/// Stores a handle.
///
/// # Safety
/// 1. As [`store`].
unsafe fn give(to: *mut Handle, handle: usize) -> Answer {
    // SAFETY: (1) is ours.
    unsafe { store(to, without_provenance_mut(handle)) }
}

/// Writes a text with its last zero.
///
/// # Safety
/// 1. `bytes` bytes may be written at `to`.
unsafe fn write_text(to: *mut c_char, bytes: c_int, text: &CStr) -> Answer {
    let text = text.to_bytes_with_nul();
    if usize::try_from(bytes).unwrap_or(0) < text.len() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: so many bytes may be written (1).
    unsafe { to.cast::<u8>().copy_from(text.as_ptr(), text.len()) };
    Ok(())
}

/// Says an error in words.
///
/// # Safety
/// 1. As [`store`].
unsafe fn say(code: c_int, text: *mut *const c_char, which: usize) -> c_int {
    match words(code) {
        // SAFETY: (1) is ours.
        Some(words) => unsafe { store(text, words[which].as_ptr()) }.err().unwrap_or(0),
        None => INVALID_VALUE,
    }
}

#[cfg_attr(feature = "library", unsafe(export_name = "cuGetErrorName"))]
unsafe extern "C" fn error_name(code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: (1) as the driver's manual says.
    unsafe { say(code, text, 0) }
}

#[cfg_attr(feature = "library", unsafe(export_name = "cuGetErrorString"))]
unsafe extern "C" fn error_text(code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: (1) as the driver's manual says.
    unsafe { say(code, text, 1) }
}
