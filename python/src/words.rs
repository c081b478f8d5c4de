//! Words that stand for Rust's small enums, and lists of numbers.

use pagelift::backends::{CopyCalls, Pieces};
use pagelift::geometry::{Landing, Lift, Memory};
use pagelift::import::{Policy, Recurrence};
use pagelift::layout::{ConvOrder, HeadOrder, KvRegions, KvScales};
use pagelift::lifecycle::{Lane, Restores};
use pagelift::plan::TailRows;
use pagelift_bindings::keys::Way;
use pyo3::Borrowed;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::error::bad_word;

/// An argument that is one of a few words.
pub struct Word<T>(pub T);

/// What a word may be, and what it stands for.
pub trait Words: Copy + 'static {
    /// What is asked for, in messages.
    const WHAT: &'static str;
    /// Each word with its meaning.
    const ALL: &'static [(&'static str, Self)];
}

impl<'py, T: Words> FromPyObject<'_, 'py> for Word<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let word: String = object.extract()?;
        let found = T::ALL.iter().find(|(own, _)| *own == word);
        found.map(|(_, value)| Self(*value)).ok_or_else(|| {
            let words: Vec<&str> = T::ALL.iter().map(|(own, _)| *own).collect();
            bad_word(T::WHAT, &word, &words)
        })
    }
}

macro_rules! words {
    ($($type:ty: $what:literal, [$($word:literal => $value:expr),+ $(,)?];)+) => { $(
        impl Words for $type {
            const WHAT: &'static str = $what;
            const ALL: &'static [(&'static str, Self)] = &[$(($word, $value)),+];
        }
    )+ };
}

words! {
    Memory: "memory", ["host" => Memory::Host, "device" => Memory::Device];
    Landing: "landing", ["host" => Landing::Host, "device" => Landing::Device];
    Lift: "lift",
        ["tail" => Lift::Tail, "all" => Lift::All, "state" => Lift::State, "none" => Lift::None];
    TailRows: "mode",
        ["whole" => TailRows::Whole, "exact" => TailRows::Exact, "exact-zeroed" => TailRows::ExactZeroed];
    Lane: "lane", ["lift" => Lane::Lift, "write-back" => Lane::WriteBack, "mirror" => Lane::Mirror];
    Restores: "restores", ["prefixes" => Restores::Prefixes, "requests" => Restores::Requests, "nothing" => Restores::Nothing];
    Recurrence: "recurrence", ["none" => Recurrence::None, "state" => Recurrence::State];
    Policy: "policy",
        ["lift-tail" => Policy::LiftTail, "round-down" => Policy::RoundDown, "land-on-device" => Policy::LandOnDevice];
    ConvOrder: "conv_order", ["sd" => ConvOrder::Sd, "ds" => ConvOrder::Ds];
    HeadOrder: "order", ["nhd" => HeadOrder::Nhd, "hnd" => HeadOrder::Hnd];
    KvRegions: "regions", ["packed" => KvRegions::Packed, "separate" => KvRegions::Separate];
    CopyCalls: "calls", ["each" => CopyCalls::Each, "batch" => CopyCalls::Batch];
    Pieces: "pieces", ["pages" => Pieces::Pages, "rows" => Pieces::Rows];
    KvScales: "scales", ["outside" => KvScales::Outside, "per-token-head" => KvScales::PerTokenHead];
}

impl Words for Way {
    const WHAT: &'static str = "direction";
    const ALL: &'static [(&'static str, Self)] =
        &[(Self::Down.name(), Self::Down), (Self::Up.name(), Self::Up), (Self::Across.name(), Self::Across)];
}

/// The most items of a list: more than any pool has blocks.
const MOST_ITEMS: usize = 1 << 28;

/// A sequence of Python's.
pub struct List<T>(pub Vec<T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for List<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // Room is made for as many items as a sequence says that it has, and one may say anything: `range(2**40)`, for which a
        // system that promises more memory than it has makes room. So a list of Python's is made of what is no longer than
        // lists are.
        let listed = object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>();
        let no_list = object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>();
        if listed || no_list || !object.hasattr("__getitem__")? {
            return Ok(Self(object.extract()?));
        }
        let items = if object.hasattr("__len__")? { object.len()? } else { 0 };
        if items > MOST_ITEMS {
            let words = format!("a list says that it has {items} items; expected at most {MOST_ITEMS}");
            return Err(PyMemoryError::new_err(words));
        }
        Ok(Self(object.py().get_type::<PyList>().call1((object,))?.extract()?))
    }
}

/// A list of block or page numbers: a sequence of integers, or a one-dimensional array of them on the host.
pub struct Numbers(pub Vec<u32>);

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // Arrays make a list of Python's integers of themselves faster than by one call for each.
        let List(numbers) = if object.hasattr("tolist")? {
            object.call_method0("tolist")?.extract()?
        } else {
            object.extract()?
        };
        Ok(Self(numbers))
    }
}
