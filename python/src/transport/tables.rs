//! Blocks of each group, by position: dictionaries.

use crate::data::parsed;
use crate::words::List;
use pagelift_transport::plan::{BlockTable, BlockTables};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Tables of blocks: for each group by its name, either its blocks from position 0 on, or a dictionary that says more.
pub struct Tables(pub BlockTables);

impl<'py> FromPyObject<'_, 'py> for Tables {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let groups = object.cast::<PyDict>()?;
        let mut tables = BlockTables::new();
        for (name, blocks) in groups.iter() {
            let name: String = name.extract()?;
            let table = if blocks.is_instance_of::<PyDict>() {
                parsed("a table of blocks", &blocks)?
            } else {
                let blocks = if blocks.hasattr("tolist")? { blocks.call_method0("tolist")? } else { blocks };
                BlockTable::at(0, blocks.extract::<List<_>>()?.0)
            };
            tables = tables.with(&name, table);
        }
        Ok(Self(tables))
    }
}
