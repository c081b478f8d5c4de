//! Lists whose memory may not be there: that is an error, and no end of the process.

use crate::error::PlanError;

/// An empty list with room for `entries`, or an error where there is none.
pub(crate) fn with_room<T>(what: &'static str, entries: u64) -> Result<Vec<T>, PlanError> {
    let error = PlanError::OutOfMemory { what, entries };
    let mut list = Vec::new();
    let wanted = usize::try_from(entries).map_err(|_| error.clone())?;
    list.try_reserve_exact(wanted).map_err(|_| error)?;
    Ok(list)
}

/// Empties a list and makes room for `entries`, or is an error where there is none.
pub(crate) fn clear_with_room<T>(
    what: &'static str,
    list: &mut Vec<T>,
    entries: usize,
) -> Result<(), PlanError> {
    list.clear();
    reserve_more(what, list, entries)
}

/// Makes room for `entries` more, or is an error where there is none.
pub(crate) fn reserve_more<T>(
    what: &'static str,
    list: &mut Vec<T>,
    entries: usize,
) -> Result<(), PlanError> {
    let entries_wanted = u64::try_from(entries).unwrap_or(u64::MAX);
    list.try_reserve(entries).map_err(|_| PlanError::OutOfMemory { what, entries: entries_wanted })
}

/// A list of `entries` times `value`, or an error where there is no room for it.
pub(crate) fn filled<T: Clone>(what: &'static str, value: T, entries: u64) -> Result<Vec<T>, PlanError> {
    let mut list = with_room(what, entries)?;
    // As many as fit `usize`: there is room for them.
    list.resize(usize::try_from(entries).unwrap_or(0), value);
    Ok(list)
}

/// Refuses more than a plan may have.
pub(crate) fn check_most(what: &'static str, wanted: u64, most: u64) -> Result<(), PlanError> {
    if wanted > most {
        return Err(PlanError::Capacity { what, needed: wanted, capacity: most });
    }
    Ok(())
}
