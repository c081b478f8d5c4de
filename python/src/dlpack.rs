//! Arrays that say by DLPack where their memory is.
//!
//! `__dlpack__` gives a capsule with a pointer to a C struct, of one of two versions. It is read here and left as it is: a capsule
//! that nobody has taken frees its struct by the deleter when it goes away, once. So whoever keeps the capsule keeps the memory.
#![allow(unsafe_code, reason = "a capsule holds a pointer to what another library has made")]

use std::ffi::{CStr, c_void};
use std::{ptr, slice};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::{bad_tensor, bad_tensor_by};
use crate::tensor::{Device, Tensor, not_contiguous};

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
/// The version whose structs are known: others of the same major number begin with the same fields.
const VERSION: (u32, u32) = (1, 0);
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
/// More than any array has: such a number is none.
const MOST_DIMENSIONS: usize = 64;

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *const c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *const i64,
    /// In items; null where rows follow one another.
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlDevice {
    kind: i32,
    ordinal: i32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLManagedTensorVersioned`; that of old, `DLManagedTensor`, begins with its tensor.
#[repr(C)]
struct DlVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: *const c_void,
    flags: u64,
    tensor: DlTensor,
}

/// What a capsule says, checked as far as it can be.
struct Described {
    flags: u64,
    address: u64,
    device: (i32, i32),
    dtype: DlDataType,
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
}

/// The memory of an object with `__dlpack__`, and the capsule that keeps it.
pub fn of<'py>(object: &Bound<'py, PyAny>) -> PyResult<(Tensor, Bound<'py, PyAny>)> {
    let py = object.py();
    let failed = |cause| bad_tensor_by(py, "NoMemory", "`__dlpack__` gave no memory", cause);
    let (kind, ordinal): (i32, i32) =
        object.call_method0("__dlpack_device__").and_then(|found| found.extract()).map_err(failed)?;
    let device = device_of(kind, ordinal)?;
    let asked = PyDict::new(py);
    asked.set_item("max_version", VERSION)?;
    // The array is not read now, but by launches: who adopts it has them come after what is on its stream.
    if device != Device::Host {
        asked.set_item("stream", -1)?;
    }
    let capsule = match object.call_method("__dlpack__", (), Some(&asked)) {
        // Those who know the first version only do not know the word.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            asked.del_item("max_version")?;
            object.call_method("__dlpack__", (), Some(&asked))
        }
        found => found,
    };
    let capsule = capsule.map_err(failed)?;
    let found = capsule.cast::<PyCapsule>().map_err(|error| failed(error.into()))?;
    let described = Described::read(found).map_err(|text| bad_tensor("NoMemory", text))?;
    if described.device != (kind, ordinal) {
        return Err(bad_tensor("WrongDevice", "`__dlpack__` and `__dlpack_device__` name different devices"));
    }
    let tensor = described.tensor(device)?;
    Ok((tensor, capsule))
}

impl Described {
    fn read(capsule: &Bound<'_, PyCapsule>) -> Result<Self, &'static str> {
        if let Ok(pointer) = capsule.pointer_checked(Some(VERSIONED)) {
            let managed: *const DlVersioned = pointer.as_ptr().cast_const().cast();
            if !managed.is_aligned() {
                return Err("`__dlpack__` gave a misaligned pointer");
            }
            // SAFETY: who makes a capsule of that name promises that it holds such a struct, until it is taken: nobody has, for
            // its name is another one then. The version comes first in each of them; it is read before what follows.
            let major = unsafe { (&raw const (*managed).major).read() };
            if major != VERSION.0 {
                return Err("`__dlpack__` gave a struct of a version that is not known");
            }
            // SAFETY: as above, of this version.
            return unsafe { Self::of((*managed).flags, &(*managed).tensor) };
        }
        let pointer = capsule.pointer_checked(Some(PLAIN));
        let pointer =
            pointer.map_err(|_| "`__dlpack__` gave a capsule of another kind, or one that was taken")?;
        let tensor: *const DlTensor = pointer.as_ptr().cast_const().cast();
        if !tensor.is_aligned() {
            return Err("`__dlpack__` gave a misaligned pointer");
        }
        // SAFETY: as above: a struct of the first version begins with its tensor.
        unsafe { Self::of(0, &*tensor) }
    }

    /// # Safety
    /// 1. `shape`, and `strides` where it is not null, have `ndim` entries.
    unsafe fn of(flags: u64, tensor: &DlTensor) -> Result<Self, &'static str> {
        let ndim = usize::try_from(tensor.ndim).unwrap_or(usize::MAX);
        if ndim > MOST_DIMENSIONS {
            return Err("`__dlpack__` gave a number of dimensions that no array has");
        }
        let entries = |list: *const i64| {
            if ndim == 0 {
                return Some(Vec::new());
            }
            let readable = !list.is_null() && list.is_aligned();
            // SAFETY: (1) is ours; it was checked for null and alignment.
            readable.then(|| unsafe { slice::from_raw_parts(list, ndim) }.to_vec())
        };
        let shape = entries(tensor.shape).ok_or("`__dlpack__` gave no shape")?;
        let start = (tensor.data.expose_provenance() as u64).checked_add(tensor.byte_offset);
        let address = start.filter(|_| !tensor.data.is_null()).ok_or("`__dlpack__` gave no address")?;
        let strides = if ptr::eq(tensor.strides, ptr::null()) { None } else { entries(tensor.strides) };
        Ok(Self {
            flags,
            address,
            device: (tensor.device.kind, tensor.device.ordinal),
            dtype: tensor.dtype,
            shape,
            strides,
        })
    }

    fn tensor(&self, device: Device) -> PyResult<Tensor> {
        if self.flags & READ_ONLY != 0 {
            let text = "the array is read-only; pools and arrays are read and written";
            return Err(bad_tensor("ReadOnly", text));
        }
        if self.flags & COPIED != 0 {
            return Err(bad_tensor(
                "NoMemory",
                "`__dlpack__` gave a copy: the array would not see what is written",
            ));
        }
        let (dtype, item_bytes) = dtype_of(self.dtype).ok_or_else(|| {
            let DlDataType { code, bits, lanes } = self.dtype;
            let text = format!("items of DLPack's type {code} with {lanes} lanes of {bits} bits cannot be copied byte by byte");
            bad_tensor("WrongDtype", text)
        })?;
        let shape = self.shape.iter().map(|length| u64::try_from(*length)).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| bad_tensor("NoMemory", "a length of the array is negative"))?;
        // Of an empty one strides mean nothing.
        let strides = self.strides.as_ref().filter(|_| !shape.contains(&0));
        if let Some(strides) = strides {
            let mut expected = 1_i64;
            for (length, stride) in self.shape.iter().zip(strides).rev() {
                if *length > 1 && *stride != expected {
                    return Err(not_contiguous(format_args!("{:?}", self.shape)));
                }
                expected = expected.saturating_mul(*length);
            }
        }
        let bytes = shape.iter().try_fold(item_bytes, |bytes, length| bytes.checked_mul(*length));
        let bytes = bytes.ok_or_else(|| bad_tensor("NoMemory", "the array's size does not fit 64 bits"))?;
        Ok(Tensor { address: self.address, bytes, item_bytes, dtype, device })
    }
}

/// `kDLCPU`, `kDLCUDA` and `kDLCUDAHost`.
fn device_of(kind: i32, ordinal: i32) -> PyResult<Device> {
    match kind {
        1 | 3 => Ok(Device::Host),
        2 => Ok(Device::Gpu(u32::try_from(ordinal).ok())),
        _ => {
            let text =
                format!("expected memory of the host or of a GPU with CUDA, found DLPack's device {kind}");
            Err(bad_tensor("WrongDevice", text))
        }
    }
}

/// A type of items as NumPy and PyTorch name it, and the bytes of one; `None` for pointers, and parts of bytes.
fn dtype_of(dtype: DlDataType) -> Option<(String, u64)> {
    let DlDataType { code, bits, lanes } = dtype;
    let all = u64::from(bits) * u64::from(lanes);
    if all == 0 || all % 8 != 0 {
        return None;
    }
    let name = match code {
        0 => format!("int{bits}"),
        1 => format!("uint{bits}"),
        2 => format!("float{bits}"),
        4 => format!("bfloat{bits}"),
        5 => format!("complex{bits}"),
        6 => "bool".to_owned(),
        7 => "float8_e3m4".to_owned(),
        8 => "float8_e4m3".to_owned(),
        9 => "float8_e4m3b11fnuz".to_owned(),
        10 => "float8_e4m3fn".to_owned(),
        11 => "float8_e4m3fnuz".to_owned(),
        12 => "float8_e5m2".to_owned(),
        13 => "float8_e5m2fnuz".to_owned(),
        14 => "float8_e8m0fnu".to_owned(),
        15 => "float6_e2m3fn".to_owned(),
        16 => "float6_e3m2fn".to_owned(),
        17 => "float4_e2m1fn".to_owned(),
        _ => return None,
    };
    Some((if lanes == 1 { name } else { format!("{name}_x{lanes}") }, all / 8))
}
