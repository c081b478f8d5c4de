//! What requests do next: they are admitted, their reads begin, they go on from step to step, and now and then somebody
//! interferes.

use pagelift::error::LifecycleError;
use pagelift::id::PageId;
use pagelift::import::{Arrival, Policy};
use pagelift::lifecycle::{Admission, ContentHash, Event, PageState, Ranks, RequestId, Stage};
use pagelift::quantity::Tokens;

use super::{Engine, state_of};
use crate::book::Known;
use crate::content::Origin;
use crate::message::{Command, Compute, Landing, Place};
use crate::rank::MOST_TOKENS;

impl Engine {
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
        let hashes: Vec<_> = (0..tokens / block).map(|position| ContentHash::new(name(position))).collect();
        let policy =
            self.draw.pick(&[Policy::LiftTail, Policy::LiftTail, Policy::RoundDown, Policy::LandOnDevice]);
        let producer = !self.draw.once_in(5);
        let admission = Admission { prompt: Tokens::new(tokens), policy, producer, hashes: hashes.into() };
        match self.tell(&Event::Admit(admission))? {
            Ok(()) => {
                self.admitted += 1;
                Ok(true)
            }
            Err(error) if error.is_transient() => Ok(false),
            Err(LifecycleError::TooLarge { .. }) => Ok(false),
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
                    Ok(()) => Ok(()),
                    Err(error) if error.is_transient() => Ok(()),
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
            Err(error) if error.is_transient() => return Ok(()),
            Err(LifecycleError::TooLarge { .. }) => return self.insist(&Event::Abort { request }),
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
}
