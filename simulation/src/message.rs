//! What the scheduler's side tells a rank, and what that answers: plain data, a line of JSON each where ranks are processes.

use pagelift::id::{HostBlockId, PageId};
use pagelift::lifecycle::{Event, Order, RequestId};
use serde::{Deserialize, Serialize};

use crate::content::Origin;

/// What a rank is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// A step of the engine.
    Step {
        /// What the scheduler has ordered since the last one.
        orders: Vec<Order>,
        /// What the forward computes.
        computes: Vec<Compute>,
        /// The most bytes to lift.
        lift_bytes: u64,
        /// What goes wrong.
        fault: Fault,
    },
    /// A read of another engine's memory by this rank: it ends when it is carried out.
    Read {
        /// Whose it is.
        request: RequestId,
        /// Which of the rank's reads.
        part: u8,
        /// What it writes.
        landings: Vec<Landing>,
        /// Where it fails: tokens that are valid all the same.
        fails: Option<u64>,
    },
}

/// A block's worth of another engine's rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Landing {
    /// Where to.
    pub to: Place,
    /// Its first token.
    pub first: u64,
    /// One past its last token.
    pub end: u64,
    /// The other engine.
    pub origin: Origin,
    /// Whether the rank's rows are read, or its state only.
    pub rows: bool,
    /// The request's state, where it comes with this block: where to, and who computed it. In the slab, the page is that of
    /// the request's slot.
    pub state: Option<(Place, Origin)>,
}

/// Where a block lands.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In a block of the host pool.
    Host(HostBlockId),
    /// In a page.
    Device(PageId),
}

/// One request's part of a forward.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compute {
    /// Whose it is.
    pub request: RequestId,
    /// The first token that is computed.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// Who computes it.
    pub origin: Origin,
    /// Pages that are read and written: position, page, and who computed the rows before `from`.
    pub pages: Vec<(u32, PageId, Vec<Origin>)>,
    /// The state that it finds, where it has one yet.
    pub state: Option<Origin>,
}

/// What goes wrong in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing.
    None,
    /// What comes before the forward is staged and not launched.
    NothingBefore,
    /// The mirror is staged and not launched.
    NoMirror,
    /// Launches that copy pages fail.
    Pages,
    /// Launches that copy rows fail.
    Rows,
    /// Page maps cannot be changed.
    Maps,
    /// Plans cannot be staged.
    Uploads,
}

/// What came of a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reply {
    /// What the rank says to the scheduler.
    pub events: Vec<Event<'static>>,
    /// Whether the rank has nothing left to do.
    pub idle: bool,
    /// What was not as it must be: the simulation has failed.
    pub wrong: Option<String>,
    /// Rows that were compared.
    pub compared: u64,
}
