//! The scheduler's side: a lifecycle, what the engine asks of it, and what must hold of everything that it says.

mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

use pagelift::backends::SharedMemory;
use pagelift::error::LifecycleError;
use pagelift::id::HostBlockId;
use pagelift::import::Arrival;
use pagelift::lifecycle::{
    Effect, Event, Lifecycle, LifecycleCounters, LogEntry, LogHeader, Order, Rank, RequestId, Stage,
};
use pagelift::quantity::Tokens;
use pagelift_cases::draw::Draw;

use crate::book::{Book, Known};
use crate::content::Origin;
use crate::message::{Command, Compute, Fault, Reply};
use crate::shape::Shape;

/// Prompts that begin alike: so many families.
const FAMILIES: u64 = 6;

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// What the lifecycle counted.
    pub lifecycle: LifecycleCounters,
    /// Steps sent.
    pub steps: u64,
    /// Steps in which something went wrong, and reads that failed.
    pub faults: u64,
    /// Ranks that died.
    pub deaths: u64,
    /// Rows of pages and host blocks that were compared.
    pub compared: u64,
}

/// The scheduler's side of the engine.
pub struct Engine {
    shape: Shape,
    life: Lifecycle,
    book: Book,
    draw: Draw<'static>,
    /// How often something goes wrong: once in so many times.
    calm: u64,
    /// Requests that have been admitted, and all that will be.
    admitted: u64,
    imports: u64,
    orders: Vec<Order>,
    computes: Vec<(Compute, u32)>,
    to_post: VecDeque<(RequestId, u32, u32)>,
    /// Steps that were sent, and the requests that they compute, with their steps.
    sent: VecDeque<(u64, Vec<(RequestId, u32)>)>,
    log: Option<Box<dyn Write + Send>>,
    tally: Tally,
}

impl Engine {
    /// An engine that will admit so many requests.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn new(
        shape: Shape,
        pool: &SharedMemory,
        draw: Draw<'static>,
        imports: u64,
        log: Option<Box<dyn Write + Send>>,
    ) -> Result<Self, String> {
        let life = Lifecycle::new(shape.options).map_err(|error| error.to_string())?;
        let book = Book::new(shape, pool).map_err(|error| error.to_string())?;
        let mut engine = Self {
            shape,
            life,
            book,
            draw,
            calm: 0,
            admitted: 0,
            imports,
            orders: Vec::new(),
            computes: Vec::new(),
            to_post: VecDeque::new(),
            sent: VecDeque::new(),
            log,
            tally: Tally::default(),
        };
        engine.calm = engine.draw.pick(&[20, 60, 200]);
        if let Some(log) = &mut engine.log {
            write_line(log, &LogHeader::of(&engine.life))?;
        }
        Ok(engine)
    }

    /// Whether every request was admitted, and has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.admitted == self.imports && self.book.known.is_empty() && self.orders.is_empty()
    }

    /// Requests that have ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.admitted - self.book.known.len() as u64
    }

    /// What has happened so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let compared = self.tally.compared + self.book.compared;
        Tally { lifecycle: self.life.counters(), compared, ..self.tally }
    }

    /// Whether ranks have to be told something.
    #[must_use]
    pub const fn has_orders(&self) -> bool {
        !self.orders.is_empty() || !self.computes.is_empty()
    }

    /// Nothing is on its way and no rank has anything to do: so nobody may be awaited.
    ///
    /// # Errors
    /// For whom somebody waits, and would for ever.
    pub fn check_quiet(&self) -> Result<(), String> {
        for request in self.life.requests() {
            let Some(view) = self.life.request(request) else { continue };
            let awaited = match view.stage() {
                Stage::Lifting | Stage::Stopping => view.awaited(),
                Stage::Lifted => view.unsettled(),
                _ => continue,
            };
            if !awaited.is_empty() {
                return Err(format!("{request} is {}, and waits for {awaited} for ever", view.stage()));
            }
        }
        Ok(())
    }

    /// Once in so many times, something goes wrong.
    pub fn goes_wrong(&mut self) -> bool {
        self.draw.once_in(self.calm)
    }

    /// Takes a rank's answers.
    ///
    /// # Errors
    /// What is wrong.
    pub fn take(&mut self, reply: &mut Reply) -> Result<(), String> {
        self.tally.compared += reply.compared;
        reply.wrong.take().map_or(Ok(()), Err)
    }

    /// A message of a rank's arrives, maybe too late or again.
    ///
    /// # Errors
    /// Where the lifecycle refuses it though it is not that, and what is wrong with what comes of it.
    pub fn deliver(&mut self, event: &Event<'_>) -> Result<(), String> {
        match self.tell(event)? {
            Ok(()) | Err(LifecycleError::UnknownRequest { .. }) => Ok(()),
            Err(error) => Err(format!("{event:?} is refused: {error}")),
        }
    }

    /// A rank has carried out a step: what it computed may be accepted.
    pub fn ran(&mut self, step: u64) {
        while let Some((_, computed)) = self.sent.pop_front_if(|(number, _)| *number <= step) {
            for (request, step) in computed {
                if let Some(known) = self.book.known.get_mut(&request) {
                    known.ran = step;
                }
            }
        }
    }

    /// A rank is gone, and nothing of it runs any more.
    ///
    /// # Errors
    /// What is wrong with what comes of it.
    pub fn lose(&mut self, rank: u8) -> Result<(), String> {
        self.tally.deaths += 1;
        self.deliver(&Event::RankLost { rank: Rank::new(rank) })
    }

    /// A rank is there again.
    ///
    /// # Errors
    /// What is wrong with what comes of it.
    pub fn join(&mut self, rank: u8) -> Result<(), String> {
        self.deliver(&Event::RankJoined { rank: Rank::new(rank) })
    }

    /// The next step for all ranks, and its number.
    pub fn step(&mut self) -> (u64, Command) {
        self.tally.steps += 1;
        let computes = std::mem::take(&mut self.computes);
        let steps = computes.iter().map(|(compute, step)| (compute.request, *step)).collect();
        for (compute, _) in &computes {
            if let Some(known) = self.book.known.get_mut(&compute.request) {
                known.waits = false;
            }
        }
        self.sent.push_back((self.tally.steps, steps));
        let lift_bytes = self.draw.pick(&[0, 1, 4, u64::MAX / self.shape.block_bytes()]);
        let command = Command::Step {
            orders: std::mem::take(&mut self.orders),
            computes: computes.into_iter().map(|(compute, _)| compute).collect(),
            lift_bytes: lift_bytes * self.shape.block_bytes(),
            fault: Fault::None,
        };
        (self.tally.steps, command)
    }

    /// What goes wrong in a rank's next step.
    pub fn fault(&mut self) -> Fault {
        if !self.goes_wrong() {
            return Fault::None;
        }
        self.tally.faults += 1;
        let (before, mirror) = (Fault::NothingBefore, Fault::NoMirror);
        self.draw.pick(&[before, mirror, mirror, Fault::Pages, Fault::Rows, Fault::Maps, Fault::Uploads])
    }

    /// Tells the lifecycle of an event, and does what comes of it.
    fn tell(&mut self, event: &Event<'_>) -> Result<Result<(), LifecycleError>, String> {
        let told = self.life.apply(event).map(drop);
        if let Some(log) = &mut self.log {
            let refused = told.as_ref().err().map(ToString::to_string);
            let entry = LogEntry { event: event.clone(), effects: self.life.effects().to_vec(), refused };
            write_line(log, &entry)?;
        }
        if let Err(error) = told {
            return Ok(Err(error));
        }
        self.orders.extend(self.life.orders());
        let mut sealed = BTreeMap::new();
        for at in 0..self.life.effects().len() {
            let effect = self.life.effects()[at];
            self.follow(event, effect, &mut sealed).map_err(|wrong| format!("{effect:?}: {wrong}"))?;
        }
        Ok(Ok(()))
    }

    fn follow(
        &mut self,
        event: &Event<'_>,
        effect: Effect,
        sealed: &mut BTreeMap<HostBlockId, (RequestId, u64)>,
    ) -> Result<(), String> {
        match effect {
            Effect::Admitted { request, found, .. } => self.admitted(event, request, found.into())?,
            Effect::Read { request, first, end } => self.to_post.push_back((request, first, end)),
            Effect::Notify { request } => {
                let known =
                    self.book.known.get_mut(&request).ok_or("an unknown request's producer is told")?;
                known.notified += 1;
            }
            Effect::Sealed { request, position, block } => {
                sealed.insert(block, (request, position.into()));
            }
            Effect::Publish { hash, block } => {
                let owner = sealed.get(&block).copied().or_else(|| self.owner(block));
                self.book.publish(hash, block, owner.ok_or("nobody's block is published")?)?;
            }
            Effect::Hide { hash, .. } => self.book.hide(hash)?,
            Effect::Preempted { request } => {
                // What it replayed of what it had found stayed in its page.
                if let Some(known) = self.book.known.get_mut(&request) {
                    let found = known.found.len();
                    known.rows[..found].copy_from_slice(&known.found);
                }
            }
            Effect::Ended { request, .. } => {
                let known = self.book.known.remove(&request).ok_or("an unknown request ends")?;
                if known.notified != u32::from(known.producer) {
                    return Err(format!("its producer was told {} times", known.notified));
                }
                self.to_post.retain(|(own, ..)| *own != request);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whose block it is, and its position.
    fn owner(&self, block: HostBlockId) -> Option<(RequestId, u64)> {
        let position = |request: &RequestId| {
            let view = self.life.request(*request)?;
            let position = view.blocks().iter().position(|own| *own == block)?;
            (position >= view.found() as usize).then_some((*request, position as u64))
        };
        self.book.known.keys().find_map(position)
    }

    /// Writes down what is known of a request that was admitted.
    fn admitted(&mut self, event: &Event<'_>, request: RequestId, found: u64) -> Result<(), String> {
        let (Event::Admit(admission), Some(view)) = (event, self.life.request(request)) else {
            return Err("nobody asked for it".into());
        };
        let block = self.shape.block_tokens();
        let family = self.family();
        let full = admission.prompt.get() / block;
        let mut known = Known {
            admission: self.admitted,
            family,
            producer: admission.producer,
            notified: 0,
            full,
            named: full,
            found: Vec::new(),
            rows: Vec::new(),
            state: None,
            ends: BTreeMap::new(),
            steps: 1 + self.draw.small(9),
            ran: 0,
            ahead: self.draw.pick(&[1, 1, 2, 3]),
            computed: VecDeque::new(),
            waits: false,
        };
        let mut state = None;
        for position in 0..found {
            let published = self.book.find(known.name(position)).ok_or("it finds what was not published")?;
            known.found.extend_from_slice(&published.rows);
            state = published.state;
        }
        known.rows.clone_from(&known.found);
        let imported = view.imported().get();
        known.rows.resize((imported as usize).max(known.rows.len()), Origin::producer(family));
        if self.shape.has_states() && view.arrival() == Arrival::Device {
            known.state = Some(state_of(family, view.imported()));
        } else if let Some((tokens, position)) = view.state() {
            let brought = u64::from(position) >= found;
            known.state = if brought { Some(state_of(family, tokens)) } else { state };
            if known.state.is_none() {
                return Err(format!("it resumes after block {position}, which has no state"));
            }
        }
        self.book.known.insert(request, known);
        Ok(())
    }

    /// The family of the next prompt.
    fn family(&self) -> u64 {
        // Those that follow each other often begin alike.
        (self.admitted / 3 * 5 + self.admitted % 2) % FAMILIES
    }

    /// All of its requests have ended: nothing is held, nothing is lost, and all that can be found is whole.
    ///
    /// # Errors
    /// What is wrong.
    pub fn finish(&mut self) -> Result<Tally, String> {
        let options = self.shape.options;
        let left = self.life.requests().count();
        let (pages, blocks) = (self.life.free_pages(), self.life.available_blocks());
        if left > 0 || pages != options.pages as usize || blocks != options.blocks as usize {
            return Err(format!(
                "{left} requests are left, {pages} of {} pages and {blocks} of {} blocks are free",
                options.pages, options.blocks
            ));
        }
        self.book.compare_all()?;
        if let Some(log) = &mut self.log {
            log.flush().map_err(|error| error.to_string())?;
        }
        Ok(self.tally())
    }
}

/// Who has computed the state that another engine sends.
fn state_of(family: u64, tokens: Tokens) -> Origin {
    Origin::producer(family << 32 | tokens.get() | 1 << 60)
}

fn write_line(log: &mut (impl Write + ?Sized), record: &impl serde::Serialize) -> Result<(), String> {
    serde_json::to_writer(&mut *log, record).map_err(|error| error.to_string())?;
    log.write_all(b"\n").map_err(|error| error.to_string())
}
