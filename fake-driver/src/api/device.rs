//! Devices, and the context that a thread is in.

use std::ffi::{c_char, c_int, c_uint};

use super::{Handle, give, store, write_text};
use crate::words::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE};

/// `CU_DEVICE_ATTRIBUTE_…`.
const MAX_THREADS_PER_BLOCK: c_int = 1;
const MAX_SHARED_MEMORY_PER_BLOCK: c_int = 8;
const WARP_SIZE: c_int = 10;
const MULTIPROCESSOR_COUNT: c_int = 16;
const CAN_MAP_HOST_MEMORY: c_int = 19;
const MAX_THREADS_PER_MULTIPROCESSOR: c_int = 39;
const UNIFIED_ADDRESSING: c_int = 41;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: c_int = 81;
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
const GPU_DIRECT_RDMA_SUPPORTED: c_int = 116;
const GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: c_int = 117;
const GPU_DIRECT_RDMA_WRITES_ORDERING: c_int = 118;

/// What `cuDeviceGetAttribute` says of each device.
const fn attribute(attribute: c_int) -> Option<c_int> {
    Some(match attribute {
        MAX_THREADS_PER_BLOCK => 1024,
        MAX_SHARED_MEMORY_PER_BLOCK => 48 << 10,
        WARP_SIZE => 32,
        // Few: they are run one after the other.
        MULTIPROCESSOR_COUNT => 2,
        CAN_MAP_HOST_MEMORY | UNIFIED_ADDRESSING => 1,
        MAX_THREADS_PER_MULTIPROCESSOR => 2048,
        COMPUTE_CAPABILITY_MAJOR => 9,
        COMPUTE_CAPABILITY_MINOR => 0,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => 228 << 10,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 227 << 10,
        GPU_DIRECT_RDMA_SUPPORTED | GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS => 1,
        // So it has to be asked to wait.
        GPU_DIRECT_RDMA_WRITES_ORDERING => 0,
        _ => return None,
    })
}

api! {
    "cuInit" init(call, flags: c_uint) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if call.state.devices.is_empty() {
            return Err(NO_DEVICE);
        }
        call.state.initialised = true;
        Ok(())
    }
    "cuDriverGetVersion" driver_version(_call, version: *mut c_int) { store(version, 13_000) }
    "cuDeviceGetCount" device_count(call, count: *mut c_int) { store(count, call.state.devices.len() as c_int) }
    "cuDeviceGet" device_get(call, device: *mut c_int, ordinal: c_int) {
        if usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < call.state.devices.len()) {
            return store(device, ordinal);
        }
        Err(INVALID_DEVICE)
    }
    "cuDeviceGetName" device_name(_call, name: *mut c_char, bytes: c_int, _device: c_int) {
        write_text(name, bytes, c"GPU in software")
    }
    "cuDeviceGetAttribute" device_attribute(_call, value: *mut c_int, which: c_int, _device: c_int) {
        store(value, attribute(which).ok_or(INVALID_VALUE)?)
    }
    "cuDeviceGetPCIBusId" device_bus(_call, text: *mut c_char, bytes: c_int, _device: c_int) {
        write_text(text, bytes, c"0000:00:00.0")
    }
    "cuDeviceGetUuid_v2" device_uuid(_call, uuid: *mut [u8; 16], device: c_int) {
        let mut own = *b"GPU in software ";
        own[15] = device as u8;
        store(uuid, own)
    }
    "cuDeviceTotalMem_v2" device_memory(_call, bytes: *mut usize, _device: c_int) { store(bytes, 1 << 34) }

    "cuDevicePrimaryCtxRetain" primary_retain(call, context: *mut Handle, device: c_int) {
        let fresh = call.state.handle();
        let device = usize::try_from(device).ok().and_then(|device| call.state.devices.get_mut(device));
        let device = device.ok_or(INVALID_DEVICE)?;
        if device.retained == 0 {
            device.context = fresh;
        }
        device.retained += 1;
        give(context, device.context)
    }
    "cuDevicePrimaryCtxRelease_v2" primary_release(call, device: c_int) {
        let device = usize::try_from(device).ok().and_then(|device| call.state.devices.get_mut(device));
        let device = device.filter(|device| device.retained > 0).ok_or(INVALID_CONTEXT)?;
        device.retained -= 1;
        if device.retained == 0 {
            let gone = std::mem::take(&mut device.context);
            let state = &mut call.state;
            state.memory.forget(gone);
            state.modules.retain(|_, module| module.context != gone);
            state.functions.retain(|_, function| function.context != gone);
            state.streams.retain(|_, stream| stream.context != gone);
            state.events.retain(|_, event| event.context != gone);
        }
        Ok(())
    }
    "cuCtxGetCurrent" context_current(call, context: *mut Handle) {
        give(context, call.thread.contexts.last().copied().unwrap_or(0))
    }
    "cuCtxSetCurrent" context_set(call, context: Handle) {
        call.thread.contexts.pop();
        if !context.is_null() {
            call.thread.contexts.push(context.addr());
        }
        Ok(())
    }
    "cuCtxEnablePeerAccess" context_enable_peer(call, context: Handle, _flags: u32) {
        call.context()?;
        let known = call.state.devices.iter().any(|device| device.context == context.addr());
        // All memory is that of one process here: nobody is kept from any.
        if known && !context.is_null() { Ok(()) } else { Err(INVALID_CONTEXT) }
    }
    "cuCtxPushCurrent_v2" context_push(call, context: Handle) {
        if !call.state.devices.iter().any(|device| device.context == context.addr()) || context.is_null() {
            return Err(INVALID_CONTEXT);
        }
        call.thread.contexts.push(context.addr());
        Ok(())
    }
    "cuCtxPopCurrent_v2" context_pop(call, context: *mut Handle) {
        let popped = call.thread.contexts.pop().ok_or(INVALID_CONTEXT)?;
        give(context, popped)
    }
    "cuCtxSynchronize" context_synchronize(call,) {
        let context = call.context()?;
        call.no_capture_in(context)?;
        let inside = call.state.streams.iter().filter(|(_, stream)| stream.context == context);
        let inside: Vec<usize> = inside.map(|(handle, _)| *handle).collect();
        inside.into_iter().for_each(|stream| call.state.drain(stream));
        call.context().map(drop)
    }
}
