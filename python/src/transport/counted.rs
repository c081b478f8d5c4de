//! What was counted, as a dictionary.

/// A dictionary of these fields, by their names.
macro_rules! counted {
    ($py:expr, $($counters:ident: [$($field:ident),+ $(,)?]),+ $(,)?) => {{
        let counted = pyo3::types::PyDict::new($py);
        $($(counted.set_item(stringify!($field), $counters.$field)?;)+)+
        pyo3::PyResult::Ok(counted)
    }};
}
pub(super) use counted;
