//! Modules, their functions, and launches of these.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use pagelift_device::BLOCK_THREADS;
use pagelift_device::emulation::Shape;

use super::{Handle, give, write_text};
use crate::kernels::Entry;
use crate::machine::{Function, Module};
use crate::stream::Operation;
use crate::words::{INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND};

/// `CU_JIT_…`.
const INFO_LOG: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MOST_SHARED: c_int = 8;

api! {
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
}
