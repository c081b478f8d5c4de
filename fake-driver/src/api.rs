//! The calls, by their names in the driver's library.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, without_provenance_mut};

use pagelift_device::BLOCK_THREADS;
use pagelift_device::emulation::Shape;

use crate::capture::RELAXED;
use crate::kernels::Entry;
use crate::machine::{Call, Function, Module, call};
use crate::stream::{Event, Operation, Recorded, Stream};
use crate::words::{
    CAPTURE_UNSUPPORTED, CAPTURED_EVENT, ILLEGAL_STATE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE,
    INVALID_IMAGE, INVALID_VALUE, NO_DEVICE, NOT_FOUND, NOT_READY, NOT_SUPPORTED, words,
};

type Answer<T = ()> = Result<T, c_int>;
type Handle = *mut c_void;

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

macro_rules! api {
    ($($symbol:literal $name:ident($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {
        $(
            #[cfg_attr(feature = "library", unsafe(export_name = $symbol))]
            #[allow(unused_unsafe, reason = "not every call touches what it is given")]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: pointers and handles are as the driver's manual asks for: whoever calls keeps to it.
                call($symbol, |$call: &mut Call<'_>| -> Answer { unsafe { $body } })
            }
        )*

        /// A call by its name.
        pub(crate) fn symbol(name: &str) -> Option<NonNull<c_void>> {
            let function = match name {
                $($symbol => $name as *mut c_void,)*
                "cuGetErrorName" => error_name as *mut c_void,
                "cuGetErrorString" => error_text as *mut c_void,
                _ => return None,
            };
            NonNull::new(function)
        }
    };
}

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

/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_…`: the GPU itself, and all others.
const FLUSH_SCOPES: [c_int; 2] = [100, 200];

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MOST_SHARED: c_int = 8;

/// `CU_POINTER_ATTRIBUTE_…`.
const MEMORY_TYPE: c_int = 2;
const IS_MANAGED: c_int = 8;
const RANGE_START: c_int = 11;
const RANGE_BYTES: c_int = 12;

/// `CU_JIT_…`.
const INFO_LOG: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;

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

    "cuModuleLoadDataEx" module_load(
        call, module: *mut Handle, image: *const c_void, options: c_uint, keys: *mut c_int, values: *mut Handle,
    ) {
        let context = call.context()?;
        call.unsafe_call()?;
        let image = CStr::from_ptr(image.cast()).to_str().map_err(|_| INVALID_IMAGE)?.to_owned();
        if !image.contains(".entry ") {
            return Err(INVALID_IMAGE);
        }
        let asked = |wanted| (0..options as usize).find(|at| keys.add(*at).read() == wanted);
        let value = |at: usize| values.add(at).read();
        if let (Some(log), Some(room)) = (asked(INFO_LOG).map(value), asked(INFO_LOG_BYTES).map(value)) {
            let room = c_int::try_from(room.addr()).map_err(|_| INVALID_VALUE)?;
            write_text(log.cast(), room, c"ptxas info    : run by an emulation, in no registers")?;
        }
        let handle = call.state.handle();
        call.state.modules.insert(handle, Module { context, image });
        give(module, handle)
    }
    "cuModuleUnload" module_unload(call, module: Handle) {
        call.unsafe_call()?;
        call.state.modules.remove(&module.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuModuleGetFunction" module_function(call, function: *mut Handle, module: Handle, name: *const c_char) {
        call.context()?;
        let name = CStr::from_ptr(name).to_str().map_err(|_| NOT_FOUND)?;
        let module = call.state.modules.get(&module.addr()).ok_or(INVALID_HANDLE)?;
        let (context, begins) = (module.context, format!(".entry {name}("));
        if !module.image.contains(&begins) {
            return Err(NOT_FOUND);
        }
        let handle = call.state.handle();
        let entry = Entry::named(name);
        call.state.functions.insert(handle, Function { context, entry, shared: 48 << 10 });
        give(function, handle)
    }
    "cuFuncSetAttribute" function_attribute(call, function: Handle, which: c_int, value: c_int) {
        call.context()?;
        let function = call.state.functions.get_mut(&function.addr()).ok_or(INVALID_HANDLE)?;
        if which == MOST_SHARED {
            if !(0..=227 << 10).contains(&value) {
                return Err(INVALID_VALUE);
            }
            function.shared = value;
        }
        Ok(())
    }
    "cuLaunchKernel" launch(
        call, function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: Handle, arguments: *mut Handle, _extra: *mut Handle,
    ) {
        let stream = call.stream(stream.addr())?;
        let function = call.state.functions.get(&function.addr()).ok_or(INVALID_HANDLE)?;
        call.in_context_of(function.context)?;
        let flat = [grid_y, grid_z, block_y, block_z] == [1; 4];
        let whole_warps = (1..=BLOCK_THREADS).contains(&block_x) && block_x.is_multiple_of(32);
        if !flat || grid_x == 0 || !whole_warps || i64::from(shared_bytes) > i64::from(function.shared) {
            return Err(INVALID_VALUE);
        }
        let work = function.entry.with(arguments);
        let shape = Shape { blocks: grid_x, warps: block_x / 32, lanes: 32 };
        call.enqueue(stream, Operation::Launch { work, shape })
    }

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
                IS_MANAGED => value.cast::<u32>().write(0),
                RANGE_START => value.cast::<u64>().write(known.map_or(0, |it| it.start)),
                RANGE_BYTES => value.cast::<usize>().write(known.map_or(0, |it| it.bytes)),
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }

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

    "cuStreamCreate" stream_create(call, stream: *mut Handle, flags: c_uint) {
        let (context, handle) = (call.context()?, call.state.handle());
        call.state.streams.insert(handle, Stream::new(context, false, flags & 1 == 0));
        give(stream, handle)
    }
    "cuStreamDestroy_v2" stream_destroy(call, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        call.state.drain(stream);
        call.state.streams.remove(&stream).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuStreamSynchronize" stream_synchronize(call, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        call.not_captured(stream)?;
        call.no_implicit_capture(stream)?;
        call.wait(stream)
    }
    "cuStreamQuery" stream_query(call, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        call.unsafe_call()?;
        call.not_captured(stream)?;
        call.no_implicit_capture(stream)?;
        let issued = call.state.streams[&stream].issued();
        if call.state.has_done(stream, issued) { call.context().map(drop) } else { Err(NOT_READY) }
    }
    "cuStreamIsCapturing" stream_capture_state(call, stream: Handle, state: *mut c_int) {
        let stream = call.stream(stream.addr())?;
        call.no_implicit_capture(stream)?;
        store(state, call.capture_state(stream))
    }
    "cuStreamWaitEvent" stream_wait(call, stream: Handle, event: Handle, _flags: c_uint) {
        let stream = call.stream(stream.addr())?;
        let recorded = call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded.clone();
        call.wait_for(stream, &recorded)
    }
    "cuThreadExchangeStreamCaptureMode" exchange_capture_mode(call, mode: *mut c_int) {
        let wanted = mode.read();
        if !(0..=RELAXED).contains(&wanted) {
            return Err(INVALID_VALUE);
        }
        store(mode, std::mem::replace(&mut call.thread.mode, wanted))
    }

    "cuEventCreate" event_create(call, event: *mut Handle, _flags: c_uint) {
        let (context, handle) = (call.context()?, call.state.handle());
        call.state.events.insert(handle, Event { context, recorded: Recorded::Nowhere });
        give(event, handle)
    }
    "cuEventDestroy_v2" event_destroy(call, event: Handle) {
        call.state.events.remove(&event.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuEventRecord" event_record(call, event: Handle, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        let it = &call.state.streams[&stream];
        let recorded = match &it.capture {
            Some((capture, after)) => Recorded::Captured { capture: *capture, after: after.clone() },
            None => Recorded::In { stream, done: it.issued() },
        };
        let context = it.context;
        let event = call.state.events.get_mut(&event.addr()).filter(|event| event.context == context);
        event.ok_or(INVALID_HANDLE)?.recorded = recorded;
        Ok(())
    }
    "cuEventQuery" event_query(call, event: Handle) {
        call.unsafe_call()?;
        match call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded {
            Recorded::Nowhere => Ok(()),
            Recorded::In { stream, done } if call.state.has_done(stream, done) => call.context().map(drop),
            Recorded::In { .. } => Err(NOT_READY),
            Recorded::Captured { .. } => Err(CAPTURED_EVENT),
        }
    }
    "cuEventSynchronize" event_synchronize(call, event: Handle) {
        call.unsafe_call()?;
        match call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded {
            Recorded::Nowhere => Ok(()),
            Recorded::In { stream, done } => {
                call.state.run_until(stream, done);
                call.context().map(drop)
            }
            Recorded::Captured { .. } => Err(CAPTURED_EVENT),
        }
    }
    "cuEventElapsedTime" event_elapsed(call, milliseconds: *mut f32, from: Handle, to: Handle) {
        for event in [from, to] {
            match call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded {
                Recorded::Nowhere => return Err(INVALID_HANDLE),
                Recorded::In { stream, done } if call.state.has_done(stream, done) => {}
                Recorded::In { .. } => return Err(NOT_READY),
                Recorded::Captured { .. } => return Err(CAPTURED_EVENT),
            }
        }
        // Nothing here takes time.
        store(milliseconds, 0.0)
    }

    "cuStreamBeginCapture_v2" begin_capture(call, stream: Handle, mode: c_int) {
        let stream = call.stream(stream.addr())?;
        call.begin_capture(stream, mode)
    }
    "cuStreamEndCapture" end_capture(call, stream: Handle, graph: *mut Handle) {
        let (context, stream) = (call.context()?, call.stream(stream.addr())?);
        give(graph, 0)?;
        let ended = call.end_capture(stream)?;
        let handle = call.state.handle();
        call.state.graphs.insert(handle, (context, ended));
        give(graph, handle)
    }
    "cuGraphInstantiateWithFlags" instantiate(call, executable: *mut Handle, graph: Handle, _flags: u64) {
        call.unsafe_call()?;
        let made = call.state.graphs.get(&graph.addr()).ok_or(INVALID_HANDLE)?.clone();
        let handle = call.state.handle();
        call.state.executables.insert(handle, made);
        give(executable, handle)
    }
    "cuGraphLaunch" graph_launch(call, executable: Handle, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        let (context, graph) = call.state.executables.get(&executable.addr()).ok_or(INVALID_HANDLE)?.clone();
        if call.state.streams[&stream].context != context {
            return Err(ILLEGAL_STATE);
        }
        call.enqueue(stream, Operation::Graph(graph))
    }
    "cuGraphExecDestroy" executable_destroy(call, executable: Handle) {
        call.state.executables.remove(&executable.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuGraphDestroy" graph_destroy(call, graph: Handle) {
        call.state.graphs.remove(&graph.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
}
