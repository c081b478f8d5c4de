//! Copies, fills, and the wait for what others have written into a device's memory.

use std::ffi::{c_int, c_void};

use super::{Answer, Handle};
use crate::machine::Call;
use crate::stream::Operation;
use crate::words::{CAPTURE_UNSUPPORTED, INVALID_VALUE, NOT_SUPPORTED};

/// `CU_MEMORYTYPE_UNIFIED`.
const UNIFIED: c_int = 4;

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Copy2D {
    from: Copy2DEnd,
    to: Copy2DEnd,
    bytes: usize,
    rows: usize,
}

/// One end of a [`Copy2D`].
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy2DEnd {
    first_byte: usize,
    first_row: usize,
    kind: c_int,
    _host: *const c_void,
    address: u64,
    _array: Handle,
    pitch: usize,
}

/// Copies between addresses as devices see them.
fn copy(call: &mut Call<'_>, to: u64, from: u64, bytes: usize, stream: Handle) -> Answer {
    let (context, stream) = (call.context()?, call.stream(stream.addr())?);
    let there = |address| call.state.memory.holds(address, bytes, context);
    if !there(to) || !there(from) {
        return Err(INVALID_VALUE);
    }
    call.enqueue(stream, Operation::Copy { to, from, bytes })
}

/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_…`: the GPU itself, and all others.
const FLUSH_SCOPES: [c_int; 2] = [100, 200];

api! {
    "cuMemcpyHtoDAsync_v2" copy_to_device(call, to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        let host = from.expose_provenance() as u64;
        if call.state.memory.is_pinned(host, bytes) {
            let from = call.state.memory.alias(host)?;
            return copy(call, to, from, bytes, stream);
        }
        let (context, stream) = (call.context()?, call.stream(stream.addr())?);
        if !call.state.memory.holds(to, bytes, context) {
            return Err(INVALID_VALUE);
        }
        // Memory that is not pinned is the caller's again when the call returns.
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), bytes).into();
        call.enqueue(stream, Operation::Write { to, bytes })
    }
    "cuMemcpyDtoHAsync_v2" copy_to_host(call, to: Handle, from: u64, bytes: usize, stream: Handle) {
        let host = to.expose_provenance() as u64;
        if call.state.memory.is_pinned(host, bytes) {
            let to = call.state.memory.alias(host)?;
            return copy(call, to, from, bytes, stream);
        }
        let (context, stream) = (call.context()?, call.stream(stream.addr())?);
        if !call.state.memory.holds(from, bytes, context) {
            return Err(INVALID_VALUE);
        }
        if call.capture_state(stream) != 0 {
            return Err(NOT_SUPPORTED);
        }
        // The bytes are there when the call returns: what comes before them has run.
        call.wait(stream)?;
        to.cast::<u8>().copy_from(std::ptr::with_exposed_provenance(from as usize), bytes);
        Ok(())
    }
    "cuMemcpyAsync" copy_any(call, to: u64, from: u64, bytes: usize, stream: Handle) {
        copy(call, to, from, bytes, stream)
    }
    "cuMemcpy2DAsync_v2" copy_rows(call, rows: *const Copy2D, stream: Handle) {
        let Copy2D { from, to, bytes, rows } = rows.read();
        for end in [from, to] {
            if (end.kind, end.first_byte, end.first_row) != (UNIFIED, 0, 0) || end.pitch < bytes {
                return Err(INVALID_VALUE);
            }
        }
        (0..rows as u64).try_for_each(|row| {
            let at = |end: Copy2DEnd| end.address + row * end.pitch as u64;
            copy(call, at(to), at(from), bytes, stream)
        })
    }
    "cuMemcpyBatchAsync_v2" copy_batch(
        call, to: *const u64, from: *const u64, bytes: *const usize, count: usize, _attributes: *const c_void,
        _first: *const usize, _sets: usize, stream: Handle,
    ) {
        let it = call.stream(stream.addr())?;
        if it & 1 != 0 {
            return Err(INVALID_VALUE);
        }
        // The capture goes on, and lacks the copies.
        if call.capture_state(it) != 0 {
            return Err(CAPTURE_UNSUPPORTED);
        }
        (0..count).try_for_each(|index| {
            copy(call, to.add(index).read(), from.add(index).read(), bytes.add(index).read(), stream)
        })
    }
    "cuMemsetD8Async" fill(call, to: u64, value: u8, bytes: usize, stream: Handle) {
        let (context, stream) = (call.context()?, call.stream(stream.addr())?);
        if !call.state.memory.holds(to, bytes, context) {
            return Err(INVALID_VALUE);
        }
        call.enqueue(stream, Operation::Fill { to, value, bytes })
    }
    "cuMemsetD2D8Async" fill_rows(call, to: u64, pitch: usize, value: u8, bytes: usize, rows: usize, stream: Handle) {
        let (context, stream) = (call.context()?, call.stream(stream.addr())?);
        (0..rows as u64).try_for_each(|row| {
            let to = to + row * pitch as u64;
            if !call.state.memory.holds(to, bytes, context) {
                return Err(INVALID_VALUE);
            }
            call.enqueue(stream, Operation::Fill { to, value, bytes })
        })
    }
    "cuFlushGPUDirectRDMAWrites" flush_remote_writes(_call, target: c_int, scope: c_int) {
        if target == 0 && FLUSH_SCOPES.contains(&scope) { Ok(()) } else { Err(INVALID_VALUE) }
    }
}
