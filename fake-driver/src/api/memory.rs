//! Memory on devices, pinned memory of the host, and what is known of an address.

use std::ffi::{c_int, c_uint};

use super::{Handle, store};
use crate::words::INVALID_VALUE;

/// `CU_POINTER_ATTRIBUTE_…`.
const MEMORY_TYPE: c_int = 2;
const IS_MANAGED: c_int = 8;
const ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_BYTES: c_int = 12;

api! {
    "cuMemAlloc_v2" memory_allocate(call, address: *mut u64, bytes: usize) {
        let context = call.context()?;
        call.unsafe_call()?;
        store(address, call.state.memory.allocate_on(context, bytes)?)
    }
    "cuMemFree_v2" memory_free(call, address: u64) {
        let context = call.context()?;
        call.unsafe_call()?;
        call.state.memory.free_on(context, address)
    }
    "cuMemHostAlloc" host_allocate(call, start: *mut Handle, bytes: usize, _flags: c_uint) {
        call.context()?;
        call.unsafe_call()?;
        store(start, call.state.memory.allocate_host(bytes)?)
    }
    "cuMemFreeHost" host_free(call, start: Handle) {
        call.context()?;
        call.unsafe_call()?;
        call.state.memory.free_host(start.addr() as u64)
    }
    "cuMemHostRegister_v2" host_register(call, start: Handle, bytes: usize, _flags: c_uint) {
        call.context()?;
        call.unsafe_call()?;
        call.state.memory.register(start.expose_provenance() as u64, bytes)
    }
    "cuMemHostUnregister" host_unregister(call, start: Handle) {
        call.context()?;
        call.unsafe_call()?;
        call.state.memory.unregister(start.addr() as u64)
    }
    "cuMemHostGetDevicePointer_v2" host_address(call, address: *mut u64, start: Handle, _flags: c_uint) {
        call.context()?;
        store(address, call.state.memory.alias(start.addr() as u64)?)
    }
    "cuPointerGetAttributes" pointer_attributes(
        call, count: c_uint, keys: *mut c_int, values: *mut Handle, at: u64,
    ) {
        call.context()?;
        let known = call.state.memory.around(at);
        for index in 0..count as usize {
            let (key, value) = (keys.add(index).read(), values.add(index).read());
            match key {
                MEMORY_TYPE => value.cast::<u32>().write(known.map_or(0, |it| if it.host { 1 } else { 2 })),
                ORDINAL => value.cast::<c_int>().write(known.map_or(-2, |it| call.ordinal_of(it.context))),
                IS_MANAGED => value.cast::<u32>().write(0),
                RANGE_START => value.cast::<u64>().write(known.map_or(0, |it| it.start)),
                RANGE_BYTES => value.cast::<usize>().write(known.map_or(0, |it| it.bytes)),
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }
}
