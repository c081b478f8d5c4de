//! The scheduler's side: what the lifecycle is told, and who hears what it says.

use std::collections::BTreeMap;

use pagelift_planner::error::LifecycleError;
use pagelift_planner::id::HostBlockId;
use pagelift_planner::import::Arrival;
use pagelift_planner::lifecycle::{self, Admission, ContentHash, Effect, Event, RequestId};
use pagelift_planner::quantity::Tokens;

use crate::rank::Order;
use crate::world::{Known, Script, World};

impl World<'_> {
    /// Tells the scheduler what it has to take.
    pub fn tell(&mut self, event: &Event<'_>) {
        self.try_tell(event).unwrap_or_else(|error| panic!("{event:?}: {error}"));
    }

    /// Tells it something that may be too late: of a request that is over.
    pub fn tell_late(&mut self, event: &Event<'_>) {
        match self.try_tell(event) {
            Ok(()) | Err(LifecycleError::UnknownRequest { .. }) => {}
            Err(error) => panic!("{event:?}: {error}"),
        }
    }

    pub fn try_tell(&mut self, event: &Event<'_>) -> Result<(), LifecycleError> {
        self.sealed.clear();
        // What comes from the engine may be refused for want of room.
        let risky = matches!(event, Event::Admit(_) | Event::Begin { .. } | Event::Resume { .. });
        let before = risky.then(|| self.life.clone());
        match self.life.apply(event).map(<[Effect]>::to_vec) {
            Ok(effects) => {
                effects.iter().for_each(|effect| self.follow(effect));
                Ok(())
            }
            Err(error) => {
                let same = before.is_none_or(|before| self.life == before);
                assert!(same, "{event:?} was refused, and changed something");
                Err(error)
            }
        }
    }

    fn follow(&mut self, effect: &Effect) {
        let order = match *effect {
            Effect::Read { request, .. } => {
                self.to_post.insert(request);
                return;
            }
            Effect::Lift { request, .. } => {
                let view = self.life.request(request).unwrap();
                let blocks = view.blocks();
                let list = view.pages().map(|(at, page, _)| (at, page, blocks[at as usize])).collect();
                let known = &self.known[&request];
                let on_host = view.arrival() != Arrival::Device || !known.received || known.preempted;
                Order::Lift(*effect, list, on_host)
            }
            Effect::Sealed { request, position, block } => {
                self.sealed.insert(block, (request, position.into()));
                return;
            }
            Effect::Publish { hash, block } => return self.published(hash, block),
            Effect::Hide { hash, block } => {
                self.truth.remove(&hash);
                self.forget_block(block);
                return;
            }
            Effect::ReleaseBlock { block, .. } => {
                if self.life.users(block) == 0 && self.life.content(block).is_none() {
                    self.forget_block(block);
                }
                return;
            }
            Effect::ReleasePage { page, .. } => {
                self.forget_page(page);
                Order::Do(*effect)
            }
            Effect::Received { request } => {
                self.known.get_mut(&request).unwrap().received = true;
                return;
            }
            Effect::Preempted { request } => {
                self.known.get_mut(&request).unwrap().preempted = true;
                self.sides.iter_mut().for_each(|side| side.forget_pages(request));
                return;
            }
            Effect::Notify { request } => {
                let known = self.known.get_mut(&request).unwrap();
                known.notified += 1;
                assert_eq!(known.notified, 1, "the producer hears once");
                let reads = self.reads.iter().any(|(reader, ..)| *reader == request);
                assert!(!reads, "the producer's blocks are still read");
                return;
            }
            Effect::Ended { request, .. } => {
                let known = self.known.remove(&request).unwrap();
                let expected = u32::from(self.scripts[known.script].producer);
                assert_eq!(known.notified, expected, "the producer was not told");
                self.sides.iter_mut().for_each(|side| side.forget(request));
                return;
            }
            Effect::Map { .. } | Effect::Cancel { .. } | Effect::Stop { .. } => Order::Do(*effect),
            Effect::Checkpoint { .. } | Effect::Save { .. } | Effect::Spill { .. } => Order::Do(*effect),
            // For the engine.
            _ => return,
        };
        self.order(&order);
    }

    /// Tells all ranks.
    fn order(&mut self, order: &Order) {
        let (block, writers) = (self.block(), self.life.options().writers);
        for side in self.sides.iter_mut().filter(|side| side.alive) {
            let writes = writers.contains(side.worker.rank());
            side.give(order.clone(), block, writes);
        }
    }

    pub fn admit(&mut self) -> bool {
        let script = &self.scripts[self.next];
        let hashes: Vec<_> = script.hashes.iter().map(|hash| ContentHash::new(*hash)).collect();
        let Script { policy, producer, .. } = *script;
        let admission =
            Admission { prompt: Tokens::new(script.prompt), policy, producer, hashes: hashes.into() };
        // Effects speak of the request before anybody knows it.
        let mut trial = self.life.clone();
        let Ok(effects) = trial.apply(&Event::Admit(admission.clone())) else { return false };
        let admitted = effects.iter().find_map(|effect| match effect {
            Effect::Admitted { request, .. } => Some(*request),
            _ => None,
        });
        let known = Known {
            script: self.next,
            last: BTreeMap::new(),
            named: 0,
            received: false,
            preempted: false,
            notified: 0,
        };
        self.known.insert(admitted.unwrap(), known);
        self.next += 1;
        self.tell(&Event::Admit(admission));
        true
    }

    pub fn begin(&mut self, id: RequestId) -> bool {
        let (view, script) = (self.life.request(id).unwrap(), self.script(id).unwrap());
        let from = view.next_token().get() + u64::from(view.begun() - view.accepted());
        let (step, tokens) = (view.begun() + 1, script.tokens);
        if self.try_tell(&Event::Begin { request: id, tokens }).is_err() {
            return false;
        }
        if tokens == 1 {
            self.known.get_mut(&id).unwrap().last.insert(from, step);
        }
        let mirrored = self.life.orders().find_map(|order| match order {
            lifecycle::Order::Begin { from, .. } => Some(from),
            _ => None,
        });
        self.order(&Order::Begin(id, step, from, from + u64::from(tokens), mirrored.unwrap()));
        true
    }

    pub fn accept(&mut self, id: RequestId, tokens: u32) {
        let view = self.life.request(id).unwrap();
        let (step, from) = (view.accepted() + 1, view.next_token().get());
        let known = self.known.get_mut(&id).unwrap();
        known.last.extend((from..from + u64::from(tokens)).map(|token| (token, step)));
        self.tell(&Event::Accept { request: id, step, tokens });
        // The engine names what is full.
        let script = self.script(id).unwrap();
        let (block, end) = (self.block(), from + u64::from(tokens));
        let own = self.known[&id].script;
        let from = (script.hashes.len() as u64).max(self.known[&id].named);
        for position in from..end / block {
            self.known.get_mut(&id).unwrap().named = position + 1;
            self.tell(&Event::Name { request: id, hash: script.content(own, position) });
        }
    }

    /// A block becomes visible: every writer's rows are there, as the last step that computed them left them.
    fn published(&mut self, hash: ContentHash, block: HostBlockId) {
        let find = |id: &RequestId| {
            let blocks = self.life.request(*id)?.blocks();
            Some((*id, blocks.iter().position(|own| *own == block)? as u64))
        };
        let sealed = self.sealed.get(&block).copied();
        let owner = sealed.or_else(|| self.known.keys().find_map(find));
        let (id, position) = owner.expect("nobody's block is published");
        let script = &self.scripts[self.known[&id].script];
        assert_eq!(script.content(self.known[&id].script, position), hash, "published by another's name");
        let known = &self.known[&id];
        let tokens = position * self.block()..(position + 1) * self.block();
        let steps: Vec<u32> = tokens.map(|token| known.last.get(&token).copied().unwrap_or(0)).collect();
        self.truth.insert(hash, steps);
    }
}
