//! The scheduler's side: a lifecycle, what the engine asks of it, and what must hold of everything that it says.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

use pagelift::backends::SharedMemory;
use pagelift::error::LifecycleError;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Arrival, Policy};
use pagelift::lifecycle::{
    Admission, Effect, Event, Lifecycle, LifecycleCounters, LogEntry, LogHeader, Order, PageState, Rank,
    Ranks, RequestId, Stage,
};
use pagelift::quantity::Tokens;
use pagelift_cases::draw::Draw;

use crate::book::{Book, Known};
use crate::content::Origin;
use crate::message::{Command, Compute, Fault, Landing, Place, Reply};
use crate::rank::MOST_TOKENS;
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

    /// Admits the next request; `false` where it has to wait.
    ///
    /// # Errors
    /// What is wrong with what comes of it.
    pub fn admit(&mut self) -> Result<bool, String> {
        if self.admitted == self.imports {
            return Ok(false);
        }
        let block = self.shape.block_tokens();
        let mut tokens = 1 + self.draw.below(5 * block);
        if self.draw.once_in(3) {
            tokens = tokens.div_ceil(block) * block;
        }
        let family = self.family();
        let name = |position: u64| u128::from(family) << 32 | u128::from(position) | 1 << 96;
        let hashes: Vec<_> = (0..tokens / block)
            .map(|position| pagelift::lifecycle::ContentHash::new(name(position)))
            .collect();
        let policy =
            self.draw.pick(&[Policy::LiftTail, Policy::LiftTail, Policy::RoundDown, Policy::LandOnDevice]);
        let producer = !self.draw.once_in(5);
        let admission = Admission { prompt: Tokens::new(tokens), policy, producer, hashes: hashes.into() };
        match self.tell(&Event::Admit(admission))? {
            Ok(()) => {
                self.admitted += 1;
                Ok(true)
            }
            Err(LifecycleError::NoRoom { .. } | LifecycleError::RanksLost { .. }) => Ok(false),
            Err(error) => Err(format!("a request is refused: {error}")),
        }
    }

    /// Begins a request's reads: what each rank has to read.
    ///
    /// # Errors
    /// What is wrong with what comes of it.
    pub fn post(&mut self) -> Result<Vec<(u8, Command)>, String> {
        let Some((request, first, end)) = self.to_post.pop_front() else { return Ok(Vec::new()) };
        let (Some(view), Some(known)) = (self.life.request(request), self.book.known.get(&request)) else {
            return Err(format!("{request} is gone before its reads began"));
        };
        let (options, block) = (self.shape.options, self.shape.block_tokens());
        let on_device = view.arrival() == Arrival::Device;
        let readers =
            if on_device || self.shape.has_states() { Ranks::first(options.ranks) } else { options.writers };
        let each = 1 + self.draw.small(2) as u8;
        let imported = view.imported().get();
        let mut commands = Vec::new();
        for rank in readers.iter() {
            for part in 0..each {
                let own = (first..end).filter(|position| position % u32::from(each) == u32::from(part));
                let landings = own.map(|position| {
                    let at = u64::from(position) * block;
                    let page = view.pages().find(|(own, ..)| *own == position).map(|(_, page, _)| page);
                    let host = view.blocks()[position as usize];
                    let end = imported.min(at + block);
                    let state = (self.shape.has_states() && end == imported)
                        .then(|| state_of(known.family, view.imported()));
                    let slot = PageId::new(request.slot());
                    let (to, state_to) = match page.filter(|_| on_device) {
                        Some(page) => (Place::Device(page), Place::Device(slot)),
                        None => (Place::Host(host), Place::Host(host)),
                    };
                    Landing {
                        to,
                        first: at,
                        end,
                        origin: Origin::producer(known.family),
                        rows: on_device || options.writers.contains(rank),
                        state: state.map(|origin| (state_to, origin)),
                    }
                });
                let landings = landings.collect();
                commands.push((rank.get(), Command::Read { request, part, landings, fails: None }));
            }
        }
        for (_, command) in &mut commands {
            let wrong = self.draw.once_in(2 * self.calm);
            if let Command::Read { fails, .. } = command
                && wrong
            {
                *fails = Some(self.draw.below(imported));
                self.tally.faults += 1;
            }
        }
        match self.tell(&Event::Posted { request, ranks: readers, each })? {
            Ok(()) => Ok(commands),
            Err(error) => Err(format!("reads of {request} are refused: {error}")),
        }
    }

    /// A request does what it can: most often it goes on, and now and then its client or the engine interferes.
    ///
    /// # Errors
    /// What is wrong with what comes of it.
    pub fn advance(&mut self) -> Result<(), String> {
        let count = self.book.known.len() as u64;
        let at = self.draw.below(count) as usize;
        let Some((request, known)) = self.book.known.iter().nth(at) else { return Ok(()) };
        let (request, Some(view)) = (*request, self.life.request(*request)) else { return Ok(()) };
        let (begun, accepted, stage, ending) =
            (view.begun(), view.accepted(), view.stage(), view.is_ending());
        let (steps, ran, ahead, waits) = (known.steps, known.ran, known.ahead, known.waits);
        if !ending && self.draw.once_in(4 * self.calm) {
            return self.insist(&Event::Abort { request });
        }
        match stage {
            Stage::Preempted if self.draw.once_in(4) => {
                let behind = self.draw.small(3);
                match self.tell(&Event::Resume { request, behind })? {
                    Ok(()) | Err(LifecycleError::NoRoom { .. } | LifecycleError::RanksLost { .. }) => Ok(()),
                    Err(error) => Err(format!("{request} cannot be resumed: {error}")),
                }
            }
            Stage::Lifted if begun == accepted && !waits && self.draw.once_in(self.calm) => {
                self.insist(&Event::Preempt { request })
            }
            Stage::Lifted if accepted < begun && accepted < ran && self.draw.once_in(2) => {
                self.accept(request)
            }
            Stage::Lifted if accepted == steps => self.insist(&Event::Finish { request }),
            Stage::Lifted if begun < steps && begun - accepted < ahead && !waits => self.begin(request),
            Stage::Lifted if accepted < begun && accepted < ran => self.accept(request),
            _ => Ok(()),
        }
    }

    /// Frees memory where requests wait for each other's.
    ///
    /// # Errors
    /// What is wrong with what comes of it.
    pub fn make_room(&mut self) -> Result<(), String> {
        let idle = |request: &RequestId, known: &Known| {
            let view = self.life.request(*request)?;
            let idle = view.stage() == Stage::Lifted && view.begun() == view.accepted() && !known.waits;
            (idle || view.stage() == Stage::Preempted).then_some(*request)
        };
        let all: Vec<RequestId> =
            self.book.known.iter().filter_map(|(request, known)| idle(request, known)).collect();
        if all.is_empty() {
            return Ok(());
        }
        let request = self.draw.pick(&all);
        let preempt = self.life.request(request).is_some_and(|view| view.stage() == Stage::Lifted);
        let event = if preempt && self.draw.once_in(2) {
            Event::Preempt { request }
        } else {
            Event::Abort { request }
        };
        self.insist(&event)
    }

    fn insist(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.tell(event)?.map_err(|error| format!("{event:?} is refused: {error}"))
    }

    /// Begins a step of a request, where there is room for what it computes.
    fn begin(&mut self, request: RequestId) -> Result<(), String> {
        let (Some(view), Some(known)) = (self.life.request(request), self.book.known.get(&request)) else {
            return Ok(());
        };
        let open = view.begun() - view.accepted();
        let one = self.shape.has_states() || known.ahead > 1;
        let tokens = if one { 1 } else { 1 + self.draw.small(MOST_TOKENS) };
        let from = view.next_token().get() + u64::from(open);
        match self.tell(&Event::Begin { request, tokens })? {
            Ok(()) => {}
            Err(LifecycleError::NoRoom { .. } | LifecycleError::WrongStage { .. }) => return Ok(()),
            Err(error) => return Err(format!("a step of {request} is refused: {error}")),
        }
        let (Some(view), Some(known)) = (self.life.request(request), self.book.known.get_mut(&request))
        else {
            return Err(format!("{request} is gone when its step begins"));
        };
        let (step, to, block) = (view.begun(), from + u64::from(tokens), self.shape.block_tokens());
        let origin = Origin::step(known.admission, step);
        let rows = |position: u32| {
            let first = u64::from(position) * block;
            known.rows.get(first as usize..from.clamp(first, first + block) as usize)
        };
        // Those that nobody needs any more are for the steps before.
        let pages = view.pages().filter(|(.., state)| *state != PageState::Droppable);
        let pages = pages.map(|(position, page, _)| (position, page, rows(position)));
        let pages = pages.map(|(position, page, rows)| (position, page, rows.unwrap_or_default().to_vec()));
        let compute = Compute { request, from, to, origin, pages: pages.collect(), state: known.state };
        known.rows.truncate(from as usize);
        known.rows.resize(to as usize, origin);
        known.computed.push_back(tokens);
        if self.shape.has_states() {
            known.state = Some(origin);
            if to.is_multiple_of(block) {
                known.ends.insert(to / block - 1, origin);
            }
        }
        known.waits = true;
        self.computes.push((compute, step));
        Ok(())
    }

    /// Accepts some of the tokens of a step, and names what is full.
    fn accept(&mut self, request: RequestId) -> Result<(), String> {
        let Some(view) = self.life.request(request) else { return Ok(()) };
        let step = view.accepted() + 1;
        let Some(known) = self.book.known.get_mut(&request) else { return Ok(()) };
        let Some(computed) = known.computed.pop_front() else {
            return Err(format!("{request} has no step to accept"));
        };
        let tokens = 1 + self.draw.small(computed);
        self.insist(&Event::Accept { request, step, tokens })?;
        loop {
            let Some(view) = self.life.request(request) else { return Ok(()) };
            let Some(known) = self.book.known.get_mut(&request) else { return Ok(()) };
            if (known.named + 1) * self.shape.block_tokens() > view.next_token().get() {
                return Ok(());
            }
            let hash = known.name(known.named);
            known.named += 1;
            self.insist(&Event::Name { request, hash })?;
        }
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
