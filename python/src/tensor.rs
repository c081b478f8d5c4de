//! Which memory an object of Python stands for.
//!
//! Nothing is imported for that: objects are asked by the names that they answer to.
//!
//! | object | is asked |
//! |---|---|
//! | PyTorch tensors, and what looks like them | `data_ptr()`, `numel()`, `element_size()`, `is_contiguous()`, `device`, `dtype` |
//! | CuPy, Numba and other arrays of a GPU | `__cuda_array_interface__` |
//! | NumPy arrays | `__array_interface__` |
//! | others | `__dlpack__()`, as [`dlpack`] reads it |

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack;
use crate::error::{TensorError, bad_tensor, bad_tensor_by};
use crate::words::List;

/// Where the memory of an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// In the host's memory.
    Host,
    /// In a GPU's, where the object says of which.
    Gpu(Option<u32>),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Gpu(Some(ordinal)) => write!(f, "GPU {ordinal}"),
            Self::Gpu(None) => f.write_str("a GPU"),
        }
    }
}

/// Contiguous memory that may be written.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub address: u64,
    pub bytes: u64,
    pub item_bytes: u64,
    /// As NumPy and PyTorch name it: `int64`.
    pub dtype: String,
    pub device: Device,
}

impl Tensor {
    /// The memory of an object, and what keeps it where it is, as far as that keeps its word.
    ///
    /// # Errors
    /// `TensorError` for what has no memory, is not contiguous, or is read-only, and for what does not keep to its protocol.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<(Self, Py<PyAny>)> {
        let py = object.py();
        Self::asked(object).map_err(|error| {
            if error.is_instance_of::<TensorError>(py) {
                return error;
            }
            bad_tensor_by(py, "NotATensor", "the object does not say where its memory is", error)
        })
    }

    fn asked(object: &Bound<'_, PyAny>) -> PyResult<(Self, Py<PyAny>)> {
        let mut kept = vec![object.clone()];
        let tensor = if object.hasattr("data_ptr")? && object.hasattr("element_size")? {
            let tensor = of_torch(object);
            // `tensor.data = other` takes the memory away from this one.
            if tensor.is_ok() && object.hasattr("detach")? {
                kept.push(object.call_method0("detach")?);
            }
            tensor
        } else if object.hasattr("__cuda_array_interface__")? {
            let ordinal = object.getattr("device").and_then(|device| device.getattr("id")?.extract());
            of_interface(object, "__cuda_array_interface__", Device::Gpu(ordinal.ok()))
        } else if object.hasattr("__array_interface__")? {
            of_interface(object, "__array_interface__", Device::Host)
        } else if object.hasattr("__dlpack__")? {
            dlpack::of(object).map(|(tensor, capsule)| {
                kept.push(capsule);
                tensor
            })
        } else {
            let name = object.get_type().name()?;
            let text = format!(
                "expected a tensor (with `data_ptr`), an array of a GPU (`__cuda_array_interface__`) or of NumPy \
                 (`__array_interface__`), or one with `__dlpack__`, found {name}"
            );
            Err(bad_tensor("NotATensor", text))
        }?;
        let Self { address, bytes, .. } = tensor;
        if bytes == 0 || address == 0 || address.checked_add(bytes).is_none() {
            let text =
                format!("the tensor has {bytes} bytes at {address:#x}: expected memory of at least 1 byte");
            return Err(bad_tensor("NoMemory", text));
        }
        Ok((tensor, PyTuple::new(object.py(), kept)?.into_any().unbind()))
    }

    /// How many items it has.
    pub fn items(&self) -> u64 {
        self.bytes.checked_div(self.item_bytes).unwrap_or(0)
    }
}

fn of_torch(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = object.py();
    let device = object.getattr("device")?;
    let place: String = device.getattr("type")?.extract()?;
    // A fake tensor says that it is on the device of the tensor which it stands for.
    if place == "meta" || object.hasattr("fake_mode")? {
        let text = "a fake or meta tensor has no memory; run with real tensors, outside of tracing and of `torch.compile`";
        return Err(bad_tensor("NoMemory", text));
    }
    let device = match place.as_str() {
        "cpu" => Device::Host,
        "cuda" => Device::Gpu(device.getattr("index")?.extract()?),
        _ => {
            return Err(bad_tensor(
                "WrongDevice",
                format!("expected a tensor on cpu or cuda, found one on {place}"),
            ));
        }
    };
    let asked = |name: &str| {
        let failed = || format!("the tensor has no memory of its own: `{name}` failed");
        object.call_method0(name).map_err(|cause| bad_tensor_by(py, "NoMemory", failed(), cause))
    };
    if !asked("is_contiguous")?.is_truthy()? {
        return Err(not_contiguous(object.getattr("shape")?));
    }
    let item_bytes: u64 = asked("element_size")?.extract()?;
    let numel: u64 = asked("numel")?.extract()?;
    let address = asked("data_ptr")?.extract()?;
    let dtype = object.getattr("dtype")?.str()?.to_string();
    let dtype = dtype.rsplit('.').next().unwrap_or_default().to_owned();
    Ok(Tensor { address, bytes: numel.saturating_mul(item_bytes), item_bytes, dtype, device })
}

fn of_interface(object: &Bound<'_, PyAny>, name: &str, device: Device) -> PyResult<Tensor> {
    let interface = object.getattr(name)?;
    let interface = interface.cast::<PyDict>()?;
    let field = |key: &str| {
        let found = interface.get_item(key)?.filter(|value| !value.is_none());
        found.ok_or_else(|| bad_tensor("NoMemory", format!("`{name}` has no `{key}`")))
    };
    let List(shape): List<u64> = field("shape")?.extract()?;
    let typestr: String = field("typestr")?.extract()?;
    let (address, read_only): (u64, bool) = field("data")?.extract()?;
    if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
        return Err(bad_tensor("NoMemory", "the array has a mask: not all of it is memory"));
    }
    if read_only {
        return Err(bad_tensor("ReadOnly", "the array is read-only; pools and arrays are read and written"));
    }
    // NumPy's scalars answer too, of memory that is gone at once.
    if shape.is_empty() {
        return Err(bad_tensor("NoMemory", "expected an array of at least one dimension, found a scalar"));
    }
    let kind = typestr.chars().nth(1).unwrap_or('?');
    let has_objects = object.getattr("dtype").and_then(|dtype| dtype.getattr("hasobject")?.is_truthy());
    if kind == 'O' || has_objects.unwrap_or(false) {
        return Err(bad_tensor("WrongDtype", "an array of Python's objects cannot be copied byte by byte"));
    }
    let item_bytes = item_bytes(&typestr).ok_or_else(|| {
        bad_tensor("WrongDtype", format!("items of the type {typestr:?} cannot be copied byte by byte"))
    })?;
    let strides = interface.get_item("strides")?.filter(|value| !value.is_none());
    if let Some(strides) = strides {
        let List(strides): List<i64> = strides.extract()?;
        if strides.len() != shape.len() {
            let (strides, axes) = (strides.len(), shape.len());
            return Err(bad_tensor("NoMemory", format!("`{name}` has {strides} strides for {axes} axes")));
        }
        let mut expected = i64::try_from(item_bytes).unwrap_or(i64::MAX);
        for (length, stride) in shape.iter().zip(strides).rev() {
            if *length > 1 && stride != expected {
                return Err(not_contiguous(field("shape")?));
            }
            expected = expected.saturating_mul(i64::try_from(*length).unwrap_or(i64::MAX));
        }
    }
    let bytes = shape.iter().try_fold(item_bytes, |bytes, length| bytes.checked_mul(*length));
    let bytes = bytes.ok_or_else(|| bad_tensor("NoMemory", "the array's size does not fit 64 bits"))?;
    Ok(Tensor { address, bytes, item_bytes, dtype: dtype_of(&typestr), device })
}

/// The exception of a tensor whose rows do not follow one another.
pub fn not_contiguous(shape: impl fmt::Display) -> PyErr {
    let text = format!(
        "a tensor of shape {shape} is not contiguous; pass the tensor that it views: a contiguous copy is other memory"
    );
    bad_tensor("NotContiguous", text)
}

/// The bytes of an item: `8` of `<i8` and of `<M8[ns]`, `12` of `<U3`. `None` for parts of bytes, and what is no type.
fn item_bytes(typestr: &str) -> Option<u64> {
    let (kind, size) = (typestr.chars().nth(1)?, typestr.get(2..)?);
    let digits = size.split(|letter: char| !letter.is_ascii_digit()).next()?;
    let size: u64 = digits.parse().ok()?;
    match kind {
        't' => None,
        // Letters of four bytes.
        'U' => size.checked_mul(4),
        _ => Some(size),
    }
}

/// `<i8` as `int64`; what has no such name, or the other byte order, as it is.
fn dtype_of(typestr: &str) -> String {
    let mut letters = typestr.chars();
    let (order, kind) = (letters.next().unwrap_or('?'), letters.next().unwrap_or('?'));
    let word = match kind {
        'i' => "int",
        'u' => "uint",
        'f' => "float",
        _ => return typestr.to_owned(),
    };
    match letters.as_str().parse::<u32>() {
        Ok(bytes) if order != '>' => format!("{word}{}", bytes.saturating_mul(8)),
        _ => typestr.to_owned(),
    }
}
