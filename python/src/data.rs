//! Plain data of Python's: dictionaries, lists, words and numbers, as Rust has them in logs.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyString, PyTuple};
use pythonize::pythonize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// How deep data may be nested: nothing that is read here comes near it, and no stack runs over.
const DEEPEST: u32 = 32;

/// Reads a dictionary. One that is not `what` is a `ValueError`, which says where it went wrong.
pub fn parsed<T: DeserializeOwned>(what: &str, data: &Bound<'_, PyAny>) -> PyResult<T> {
    // A copy is read: nothing of Python's runs meanwhile, nor changes it.
    serde_json::from_value(plain(what, data, DEEPEST)?)
        .map_err(|error| PyValueError::new_err(format!("not {what}: {error}")))
}

/// Writes dictionaries.
pub fn told<'py>(py: Python<'py>, data: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize(py, data)?)
}

fn plain(what: &str, data: &Bound<'_, PyAny>, deeper: u32) -> PyResult<Value> {
    let wrong = |text: &str| PyValueError::new_err(format!("not {what}: {text}"));
    let deeper = deeper.checked_sub(1).ok_or_else(|| wrong("it is nested too deep"))?;
    Ok(if data.is_none() {
        Value::Null
    } else if let Ok(words) = data.cast::<PyString>() {
        Value::String(words.to_str()?.to_owned())
    } else if let Ok(dictionary) = data.cast::<PyDict>() {
        let mut map = Map::new();
        // A list of its items: reading a number may change the dictionary.
        for item in dictionary.items() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let key = key.cast::<PyString>().map_err(|_| wrong("a key is no string"))?;
            map.insert(key.to_str()?.to_owned(), plain(what, &value, deeper)?);
        }
        Value::Object(map)
    } else if let Ok(list) = data.cast::<PyList>() {
        list.iter().map(|item| plain(what, &item, deeper)).collect::<PyResult<_>>()?
    } else if let Ok(list) = data.cast::<PyTuple>() {
        list.iter().map(|item| plain(what, &item, deeper)).collect::<PyResult<_>>()?
    } else if let Ok(number) = data.cast::<PyFloat>() {
        Number::from_f64(number.value()).map(Value::Number).ok_or_else(|| wrong("a number is not finite"))?
    } else if let Ok(flag) = data.extract() {
        Value::Bool(flag)
    } else if data.hasattr("__index__")? {
        match data.extract::<u64>() {
            Ok(number) => number.into(),
            Err(_) => Value::from(data.extract::<i64>().map_err(|error| {
                let large = error.is_instance_of::<PyOverflowError>(data.py());
                if large { wrong("a number does not fit 64 bits") } else { error }
            })?),
        }
    } else {
        return Err(wrong(&format!("it has a {}", data.get_type().name()?)));
    })
}
