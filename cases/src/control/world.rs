//! Both engines: what they have, and something that carries no bytes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use pagelift_planner::geometry::{
    GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, SideSpec, State,
    StateLift,
};
use pagelift_planner::layout::{PagedLayout, StateLayout, StatePart};
use pagelift_planner::quantity::Tokens;
use pagelift_transport::descriptors::{Descriptor, ListSide};
use pagelift_transport::error::NoticeError;
use pagelift_transport::facts::{Element, Exchange, GroupFacts};
use pagelift_transport::lease::{Moment, Terms};
use pagelift_transport::notice::Notice;
use pagelift_transport::offer::Offer;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{BlockTable, BlockTables, PlannedRead};
use pagelift_transport::producer::{Answer, Ask, Exporter, Freed};
use pagelift_transport::transfer::{Destination, Heard, ReadingState, Transfer};

/// The number that P has drawn.
pub(super) const INCARNATION: u64 = 0x5eed;

/// Blocks of every pool.
const BLOCKS: u32 = 8;

/// Tokens of every honest import: three blocks.
pub(super) const IMPORTED: u64 = 40;

pub(super) fn terms() -> Terms {
    let milliseconds = Duration::from_millis;
    Terms { lease: milliseconds(100), heartbeat: milliseconds(20), margin: milliseconds(5) }
}

pub(super) fn at(milliseconds: u64) -> Moment {
    Moment::new(Duration::from_millis(milliseconds))
}

/// P's offer and D's. P's blocks are two pages each.
pub(super) fn offers() -> &'static [Offer; 2] {
    static OFFERS: OnceLock<[Offer; 2]> = OnceLock::new();
    OFFERS.get_or_init(|| [8, 16].map(offer))
}

fn offer(page_tokens: u32) -> Offer {
    let mut builder = GeometryBuilder::new();
    let pages = BLOCKS * (16 / page_tokens);
    let memory = Memory::Host;
    macro_rules! group {
        ($kind:ident, $name:literal, $address:literal, $lift:expr, $layout:expr, $pages:expr) => {{
            let layout = $layout.expect("it is a layout");
            let page = layout.page_bytes().get();
            let region = Region::new($address, u64::from($pages) * page);
            let pool = builder.pool(PoolSpec::new($name, memory, $pages, &[region])).expect("it is a pool");
            let side = SideSpec::packed(pool, &[$address], &[0], page, layout);
            let (name, landing) = ($name.into(), Landing::Host);
            let spec =
                GroupSpec::<$kind> { name, layers: 1, landing, lift: $lift, host: Some(side), device: None };
            builder.group(spec).expect("it is a group");
        }};
    }
    let keys = PagedLayout::builder(page_tokens).segment("key", 4).build();
    group!(Paged, "main", 0x10000, PagedLift::None, keys, pages);
    group!(
        State,
        "gdn",
        0x20000,
        StateLift::None,
        StateLayout::new(&[StatePart::new("s", 32)], None),
        BLOCKS
    );
    let said =
        |name, segment, bytes: u32| GroupFacts::new(name, memory).segment(segment, Element::U8, &[bytes]);
    let facts = [said("main", "key", 4), said("gdn", "s", 32)];
    let exchange = Exchange::new(Tokens::new(16));
    Offer::of(&builder.build().expect("it is a geometry"), &exchange, &facts, Region::address)
        .expect("it fits")
}

/// The blocks of an honest import, by position.
pub(super) fn tables() -> BlockTables {
    BlockTables::new()
        .with("main", BlockTable::from_first(&[1, 0, 5]))
        .with("gdn", BlockTable::at(2, vec![Some(3)]))
}

/// Carries no bytes: a read lands when it is asked about often enough.
#[derive(Clone, Default)]
pub(super) struct Carrier(Rc<Shared>);

#[derive(Default)]
struct Shared {
    in_flight: Cell<usize>,
    /// How often a read is asked about before it ends; more than a test's patience: never, until it is told to stop.
    pub asks: Cell<u32>,
    inbox: RefCell<Vec<Heard>>,
}

/// What was refused.
#[derive(Debug)]
pub(super) struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

pub(super) struct Reading {
    left: Cell<u32>,
    carrier: Rc<Shared>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.carrier.in_flight.set(self.carrier.in_flight.get() - 1);
    }
}

impl Carrier {
    /// Reads that begin from now on take so long.
    pub fn takes(&self, asks: u32) {
        self.0.asks.set(asks);
    }

    pub fn in_flight(&self) -> usize {
        self.0.in_flight.get()
    }

    /// Somebody has sent a notice, or something else.
    pub fn deliver(&self, text: &[u8]) {
        let notice: Result<Notice, NoticeError> = Notice::parse(text);
        self.0.inbox.borrow_mut().push(Heard { peer: "peer".into(), notice });
    }
}

impl Transfer for Carrier {
    type Lists = Peer;
    type Reading = Reading;
    type Error = Refused;

    fn metadata(&self) -> Result<Vec<u8>, Refused> {
        Ok(b"peer".to_vec())
    }

    fn add_peer(&self, metadata: &[u8]) -> Result<String, Refused> {
        String::from_utf8(metadata.to_vec()).map_err(|_| Refused)
    }

    fn forget_peer(&self, _: &str) -> Result<(), Refused> {
        Ok(())
    }

    fn prepare(&self, _: &str, peer: &Peer) -> Result<Peer, Refused> {
        Ok(peer.clone())
    }

    /// What is read lies in the lists; what is written in D's memory.
    fn read(&self, lists: &Peer, read: &PlannedRead) -> Result<Reading, Refused> {
        let list = &lists.lists()[read.list()];
        assert_eq!(read.remote().len(), read.local().len());
        assert!(!read.local().is_empty(), "an empty read is none");
        for (numbers, side) in [(read.remote(), ListSide::Remote), (read.local(), ListSide::Local)] {
            assert!(numbers.iter().all(|number| u64::try_from(*number).unwrap() < list.entries(side)));
        }
        self.0.in_flight.set(self.0.in_flight.get() + 1);
        Ok(Reading { left: Cell::new(self.0.asks.get()), carrier: self.0.clone() })
    }

    fn state(&self, reading: &Reading) -> ReadingState {
        reading.left.set(reading.left.get().saturating_sub(1));
        if reading.left.get() == 0 { ReadingState::Landed } else { ReadingState::InFlight }
    }

    fn stop(&self, reading: &Reading) {
        reading.left.set(reading.left.get().min(2));
    }

    fn notify(&self, _: &str, notice: &Notice) -> Result<(), Refused> {
        self.deliver(notice.to_string().as_bytes());
        Ok(())
    }

    fn heard(&self) -> Result<Vec<Heard>, Refused> {
        Ok(self.0.inbox.take())
    }
}

/// D's memory: zeroes stay inside of it.
pub(super) struct Within<'a>(pub &'a Offer);

impl Destination for Within<'_> {
    type Error = Refused;

    fn zero(&mut self, range: Descriptor) -> Result<(), Refused> {
        let end = range.address + range.bytes;
        let mut own = self.0.regions.memory.iter();
        assert!(
            own.any(|own| own.address <= range.address && end <= own.address + own.bytes),
            "{range:?} is not D's"
        );
        Ok(())
    }

    fn settle(&mut self, device: u64) -> Result<(), Refused> {
        let mut own = self.0.regions.memory.iter();
        assert!(
            own.any(|own| own.memory == Memory::Device && own.device == device),
            "GPU {device} is not D's"
        );
        Ok(())
    }
}

/// P's engine: it exports the same to whoever asks, and counts what it gets back.
#[derive(Default)]
pub(super) struct Engine {
    next: u64,
    pub held: BTreeMap<u64, u64>,
}

impl Exporter for Engine {
    type Blocks = u64;

    fn export(&mut self, ask: &Ask) -> Answer<u64> {
        match ask.request % 4 {
            3 => Answer::Refuse { reason: "there is none".into() },
            _ if self.held.len() > 8 => Answer::NotYet,
            _ => {
                self.next += 1;
                self.held.insert(self.next, ask.request);
                Answer::Export { tables: tables(), blocks: self.next }
            }
        }
    }

    fn free(&mut self, freed: Freed<u64>) {
        assert_eq!(self.held.remove(&freed.blocks), Some(freed.ask.request), "it is freed once");
    }
}
