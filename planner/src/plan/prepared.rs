//! What a reserved import adds to a plan: checked and worked out once, so that a step only copies it.
//!
//! Reservations keep their imports apart already. A plan that has nothing but imports of one set of reservations need
//! not compare all their blocks again: a mark on one page of each tells an import that comes twice. What the marks stand
//! for is claimed when something joins the plan that the reservations do not know, or may not keep apart any more,
//! because an import was released since.

use pagelift_abi as abi;

use super::claims::{Claim, Claims, Use};
use super::direction::HostToDevice;
use super::jobs::{PageJobs, is_list, pairs_of};
use super::pages::PagePlan;
use crate::error::PlanError;
use crate::geometry::Geometry;
use crate::id::ImportId;
use crate::lifecycle::{Reservations, Together};
use crate::room::{clear_with_room, with_room};

/// What one import adds. Units and block lists are counted from its first.
///
/// A step looks at each import once, and at thousands of them: what it looks at is in as few cache lines as can be.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    jobs: Vec<abi::PageJob>,
    units: u32,
    /// Entries of block lists.
    entries: u32,
    bytes: u64,
    /// A page that is written. It stands for the import.
    mark: Option<Claim>,
    rest: Box<Rest>,
}

/// What a step rarely looks at.
#[derive(Debug, Default)]
struct Rest {
    lists: Vec<abi::BlockPair>,
    /// All rows that are read and written.
    all: Vec<(Claim, Use)>,
    /// Those that jobs do not say again: pages that arrived on the device, a page without imported rows.
    unsaid: Vec<(Claim, Use)>,
}

/// Who keeps the blocks of a plan's jobs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptApart {
    /// The plan's claims.
    ByClaims,
    /// Reservations: all jobs came from them, of imports that were reserved together. Only marks are claimed.
    ByReservations(Together),
}

impl Prepared {
    /// Nothing, with room for `jobs` jobs.
    pub(crate) fn with_room(jobs: u64) -> Result<Self, PlanError> {
        Ok(Self { jobs: with_room("jobs of imports", jobs)?, ..Self::default() })
    }

    /// Bytes that it copies.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl PagePlan<HostToDevice> {
    /// Adds a reserved import: what [`PagePlan::lift`] adds, without working it out again.
    ///
    /// Its lists were checked when it was reserved. What is left to check is that it comes once, beside whatever else
    /// the plan has. The cost depends neither on layers nor, where a tail is lifted, on the length of the prompt.
    /// Where an import was released since the plan was begun, all of the plan's blocks are compared again: it costs what
    /// [`PagePlan::lift`] costs, until the plan is cleared.
    ///
    /// # Errors
    /// [`PlanError::UnknownImport`] where it was released, or reserved elsewhere; else as [`PagePlan::lift`]. The plan is
    /// then as it was.
    pub fn lift_reserved(&mut self, reservations: &Reservations, import: ImportId) -> Result<(), PlanError> {
        let prepared = reservations.prepared(&self.geometry, import)?;
        self.jobs.reserve_jobs(prepared.jobs.len())?;
        let entries = usize::try_from(prepared.entries).unwrap_or(usize::MAX);
        let first_entry = self.jobs.reserve_list(entries)?;
        let units = self.jobs.units_with(prepared.units.into())?;

        let same = KeptApart::ByReservations(reservations.together());
        if self.is_empty() && self.claims.is_empty() {
            self.kept_apart = same;
        } else if self.kept_apart != same {
            self.claim_all();
        }
        let mark = self.claims.len();
        let mut claim = |claim: Claim, usage: Use| {
            self.claims.claim(claim, usage).map_err(|conflict| {
                let error = self.claims.explain(&self.geometry, claim, conflict);
                self.claims.rewind(mark);
                error
            })
        };
        match prepared.mark {
            Some(page) if self.kept_apart == same => claim(page, Use::Write)?,
            _ => {
                let Rest { all, unsaid, .. } = &*prepared.rest;
                let claims = if self.kept_apart == same { unsaid } else { all };
                claims.iter().try_for_each(|(rows, usage)| claim(*rows, *usage))?;
            }
        }

        let PageJobs { jobs, lists, units: units_before, bytes, .. } = &mut self.jobs;
        jobs.extend(prepared.jobs.iter().map(|job| abi::PageJob {
            units_before: units_before.wrapping_add(job.units_before),
            // A block that is alone stands in the job itself.
            source: if is_list(job) { first_entry.wrapping_add(job.source) } else { job.source },
            ..*job
        }));
        if prepared.entries > 0 {
            lists.extend_from_slice(&prepared.rest.lists);
        }
        *units_before = units;
        *bytes = bytes.saturating_add(prepared.bytes);
        Ok(())
    }

    /// Moves all of this plan to `prepared`, whose memory is used again.
    ///
    /// # Errors
    /// Where there is no memory for it. `prepared` then holds nothing of use.
    pub(crate) fn prepare(&mut self, prepared: &mut Prepared) -> Result<(), PlanError> {
        let Rest { lists, all, unsaid } = &mut *prepared.rest;
        let used = self.claims.used().count();
        clear_with_room("rows read and written by an import", all, used)?;
        // And a mark.
        clear_with_room("rows read and written by an import", unsaid, used.saturating_add(1))?;
        clear_with_room("jobs of an import", &mut prepared.jobs, self.jobs.jobs.len())?;
        clear_with_room("block list entries of an import", lists, self.jobs.lists.len())?;
        all.extend(self.claims.used());
        prepared.jobs.extend_from_slice(&self.jobs.jobs);
        lists.extend_from_slice(&self.jobs.lists);
        (prepared.units, prepared.bytes) = (self.jobs.units, self.jobs.bytes);
        // No more than the plan's capacity, which is 32 bits.
        prepared.entries = u32::try_from(lists.len()).unwrap_or(u32::MAX);

        self.claims.clear();
        claim_jobs(&self.geometry, &self.jobs, &mut self.claims);
        unsaid.extend(all.iter().filter(|(claim, _)| !self.claims.contains(claim.place)).copied());
        let written = |(_, usage): &&(Claim, Use)| *usage == Use::Write;
        let page = all.iter().find(written).copied();
        prepared.mark = page.map(|(page, _)| page).filter(|_| unsaid.is_empty());
        // What jobs do not say marks the import as well, if a page that is written is among it.
        if prepared.mark.is_none() && !unsaid.iter().any(|claim| written(&claim)) {
            unsaid.extend(page);
        }
        self.clear();
        Ok(())
    }
}

impl<D> PagePlan<D> {
    /// Claims what marks stood for.
    pub(super) fn claim_all(&mut self) {
        if self.kept_apart != KeptApart::ByClaims {
            self.kept_apart = KeptApart::ByClaims;
            claim_jobs(&self.geometry, &self.jobs, &mut self.claims);
        }
    }
}

/// Claims what lifting jobs read, and the whole of each page that they write: the decoder writes its other rows. Jobs of
/// one import may share a page, and nothing else meets: so conflicts mean nothing.
fn claim_jobs(geometry: &Geometry, jobs: &PageJobs, claims: &mut Claims) {
    for job in &jobs.jobs {
        let Some(way) = geometry.way(job.route) else { continue };
        for pair in pairs_of(job, &jobs.lists) {
            let mut claim = |side: u32, block: u32, first: u32, rows: u32, usage| {
                let Some(own) = geometry.side_at(side) else { return };
                let Some(place) = claims.place(own.pool, block) else { return };
                let end = first.saturating_add(rows);
                let _ = claims.claim(Claim { place, side, group: own.group, first, end }, usage);
            };
            claim(way.destination, pair.destination, 0, way.destination_rows, Use::Write);
            if job.flags & abi::job::ZERO == 0 {
                claim(way.source, pair.source, job.source_row, job.rows, Use::Read);
            }
        }
    }
}
