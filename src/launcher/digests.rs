//! Reading digests back.

use pagelift_planner::id::Ticket;
use pagelift_planner::plan::{DigestNumber, DigestPlan};

use super::{Launcher, TicketState};
use crate::backends::Backend;
use crate::error::{Error, LaunchError};

/// Which plan the results of a launcher are those of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results {
    pub ticket: Ticket,
    /// The filling of the plan, by which its numbers are told from others.
    pub filling: u64,
    /// Its jobs.
    pub jobs: usize,
}

impl<B: Backend> Launcher<B, DigestPlan> {
    /// The digest that a call added to the plan which was staged as `ticket`. Results are kept until the next plan is
    /// staged.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use pagelift::{backends::Cpu, geometry::*, id::{HostBlockId, PageId}, launcher::{Launcher, LauncherOptions}};
    /// # use pagelift::{layout::PagedLayout, memory::Registry, plan::{DigestPlan, PlanCapacity}};
    /// # let backend = Cpu::new()?;
    /// # let mut memory = Registry::new();
    /// # let mut builder = GeometryBuilder::new();
    /// # let layout = PagedLayout::builder(16).segment("row", 64).build()?;
    /// # let mut pool = |place, blocks: u32| -> Result<_, pagelift::Error> {
    /// #     let id = memory.allocate(&backend, place, u64::from(blocks) * 1024)?;
    /// #     let region = memory.region(id).expect("ours");
    /// #     let pool = builder.pool(PoolSpec::new(place.name(), place, blocks, &[region]))?;
    /// #     Ok((id, Some(SideSpec::packed(pool, &[region.address()], &[0], 1024, layout.clone()))))
    /// # };
    /// # let ((host, blocks), (slab, pages)) = (pool(Memory::Host, 4)?, pool(Memory::Device, 4)?);
    /// # let spec = GroupSpec { name: "main".into(), layers: 1, landing: Landing::Host, lift: PagedLift::All, host: blocks, device: pages };
    /// # let group = builder.group::<Paged>(spec)?;
    /// // Blocks and pages of 16 rows of 64 bytes. Digests read both sides of the group.
    /// let [on_host, on_device] = [Memory::Host, Memory::Device]
    ///     .map(|place| builder.digest(builder.main_side(group, place).expect("it has both")));
    /// let mut plan = DigestPlan::new(Arc::new(builder.build()?), PlanCapacity::default())?;
    /// let sent = plan.host(on_host?, &[HostBlockId::new(3), HostBlockId::new(1)], 20)?;
    /// let received = plan.device(on_device?, &[PageId::new(0), PageId::new(2)], 20)?;
    /// let mut launcher = Launcher::bind(&backend, &memory, &mut plan, LauncherOptions::default())?;
    ///
    /// // The same 20 rows on both sides; what else lies there does not matter.
    /// for (id, blocks) in [(host, [3, 1]), (slab, [0, 2])] {
    ///     let bytes = memory.bytes_mut(id).expect("ours");
    ///     bytes.fill(blocks[0]);
    ///     for row in 0..20_u8 {
    ///         let block = usize::from(blocks[usize::from(row / 16)]);
    ///         bytes[block * 1024 + usize::from(row % 16) * 64..][..64].fill(row);
    ///     }
    /// }
    /// let ticket = launcher.stage(&memory, &mut plan)?;
    /// launcher.launch(&mut memory)?;
    /// assert_eq!(launcher.digest(ticket, sent)?, launcher.digest(ticket, received)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`LaunchError::DigestsPending`] before the ticket is done, [`LaunchError::DigestsGone`] where there are no
    /// results of it any more, [`LaunchError::OtherDigest`] where the number is not one of its plan's.
    pub fn digest(&self, ticket: Ticket, number: DigestNumber) -> Result<u64, Error> {
        let results = self.results.filter(|results| results.ticket == ticket);
        let results = results.ok_or(LaunchError::DigestsGone { ticket })?;
        match self.state(ticket) {
            TicketState::Done(_) => {}
            TicketState::Pending => return Err(LaunchError::DigestsPending { ticket }.into()),
            TicketState::Superseded | TicketState::Refused | TicketState::Lost | TicketState::Unknown => {
                return Err(LaunchError::DigestsGone { ticket }.into());
            }
        }
        let jobs = number.jobs();
        if number.filling() != results.filling || jobs.end as usize > results.jobs {
            return Err(LaunchError::OtherDigest { ticket }.into());
        }
        self.bound.sum(jobs)
    }
}
