//! Which import holds which blocks and pages, from its reservation to its release.

use std::sync::Arc;

use pagelift::quantity::Bytes;
use pagelift::{id, lifecycle};

use crate::foreign::{In, Out};
use crate::geometry::Geometry;
use crate::handle::{Handle, keep, object};
use crate::import::{self, Import, tail_rows};
use crate::keys::Keys;
use crate::plan::PlanCapacity;
use crate::status::{Failure, Status, answer};

/// Imports between reservation and release. An import is reserved when its host blocks and pages are known, before
/// anything is received: all that can be wrong with its lists is found then, once, and no two imports lift into one
/// page.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Reservations {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Reservations {
    /// What it stands for.
    pub const fn handle(self) -> Handle<Reserved> {
        Handle::new(self.value)
    }
}

/// What a handle of reservations stands for.
pub struct Reserved {
    /// The reservations.
    pub reservations: lifecycle::Reservations,
    keys: Arc<Keys>,
}

object!(Reserved, Reservations);

/// A reserved import, until it is released. Its number is used again; the id is not.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportId {
    /// Its reservations.
    pub reservations: u64,
    /// How often its number was given before.
    pub generation: u64,
    /// Its place among the imports that are reserved at one time.
    pub number: u32,
    /// 0.
    pub reserved: u32,
}

impl ImportId {
    fn of(id: id::ImportId) -> Self {
        let (number, generation, reservations) = id.parts();
        Self { reservations, generation, number, reserved: 0 }
    }

    /// As Rust has it.
    pub const fn id(self) -> id::ImportId {
        id::ImportId::of_parts((self.number, self.generation, self.reservations))
    }
}

/// Makes reservations for a geometry: `imports` imports at one time (at most 2^20), each with room for `capacity`, which
/// may be null. Free them by `pagelift_reservations_free`.
///
/// Errors: PAGELIFT_CAPACITY, PAGELIFT_OUT_OF_MEMORY, PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_new(
    geometry: Geometry,
    imports: u32,
    capacity: In<PlanCapacity>,
    reservations: Out<Reservations>,
) -> Status {
    answer(|| {
        let out = reservations.ready("reservations")?;
        let capacity = PlanCapacity::read(capacity)?;
        let (geometry, keys) =
            geometry.handle().look(|own| Ok((Arc::clone(&own.geometry), Arc::clone(&own.keys))))?;
        let reservations = lifecycle::Reservations::new(geometry, imports, capacity)?;
        out.put(Reservations { value: keep(Reserved { reservations, keys })? });
        Ok(())
    })
}

/// Takes an import's blocks and pages for it, and works out what lifting it in `mode` (a pagelift_tail_rows) takes.
///
/// Errors: as `pagelift_restore_plan_lift`; PAGELIFT_PLAN where another import lifts into one of its pages, or holds one
/// that it would lift into; PAGELIFT_CAPACITY where all imports are taken. Nothing is held then that was not before.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_reserve(
    reservations: Reservations,
    import: In<Import>,
    mode: u32,
    id: Out<ImportId>,
) -> Status {
    answer(|| {
        let id = id.ready("id")?;
        id.put(reservations.handle().change(|own| {
            let (import, mode) = (import::read(import, &own.keys)?, tail_rows(mode)?);
            Ok(ImportId::of(import.with(|import| own.reservations.reserve(import, mode))?))
        })?);
        Ok(())
    })
}

/// Gives an import's blocks and pages back: no launch or transfer touches them any more.
///
/// Errors: PAGELIFT_PLAN where it was released already, or reserved elsewhere; those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_release(reservations: Reservations, import: ImportId) -> Status {
    answer(|| reservations.handle().change(|own| Ok(own.reservations.release(import.id())?)))
}

/// Tells the bytes that lifting an import copies.
///
/// Errors: PAGELIFT_PLAN where it is not reserved here, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_bytes(
    reservations: Reservations,
    import: ImportId,
    bytes: Out<u64>,
) -> Status {
    answer(|| {
        let bytes = bytes.ready("bytes")?;
        bytes.put(reservations.handle().look(|own| {
            let found = own.reservations.bytes(import.id()).map(Bytes::get);
            found.ok_or_else(|| Failure::new(Status::Plan, "the import is not reserved here"))
        })?);
        Ok(())
    })
}

/// Tells whether an import is reserved here still.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_contains(
    reservations: Reservations,
    import: ImportId,
    contains: Out<bool>,
) -> Status {
    answer(|| {
        let contains = contains.ready("contains")?;
        contains.put(reservations.handle().look(|own| Ok(own.reservations.contains(import.id())))?);
        Ok(())
    })
}

/// Counts the imports that are reserved.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_len(reservations: Reservations, imports: Out<usize>) -> Status {
    answer(|| {
        let imports = imports.ready("imports")?;
        imports.put(reservations.handle().look(|own| Ok(own.reservations.len()))?);
        Ok(())
    })
}

/// Frees reservations.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_reservations_free(reservations: Reservations) -> Status {
    answer(|| reservations.handle().take().map(drop))
}
