//! What may happen next, and who does it.

use pagelift_planner::import::Arrival;
use pagelift_planner::lifecycle::{Event, Lane, Rank, Ranks, Read, RequestId, Settled, Stage};
use pagelift_planner::quantity::Tokens;

use crate::rank::{LANES, Side};
use crate::world::{Faults, World, sender};

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Admit,
    Post(RequestId),
    Land(RequestId, Rank, u8, bool),
    Deliver(usize),
    Overtake(usize),
    DeliverTwice(usize),
    Step(Rank, Option<(Lane, Settled)>),
    Settle(Rank),
    Begin(RequestId),
    Accept(RequestId, u32),
    Finish(RequestId),
    Abort(RequestId),
    Preempt(RequestId),
    Resume(RequestId),
    Die(Rank),
    Lose(Rank),
    Join(Rank),
}

impl World<'_> {
    /// Everything that may happen next.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let Faults { all, .. } = self.left;
        let may = |left: u32| all > 0 && left > 0;
        if self.next < self.scripts.len() {
            actions.push(Action::Admit);
        }
        actions.extend(self.to_post.iter().map(|id| Action::Post(*id)));
        for (id, rank, part) in &self.reads {
            actions.push(Action::Land(*id, *rank, *part, true));
            if may(self.left.reads) {
                actions.push(Action::Land(*id, *rank, *part, false));
            }
        }
        for message in 0..self.net.len() {
            // Messages of different ranks come in any order; those of one rank too, where that is a fault.
            let overtakes =
                self.net[..message].iter().any(|other| sender(other) == sender(&self.net[message]));
            if overtakes && !may(self.left.reordered) {
                continue;
            }
            actions.push(if overtakes { Action::Overtake(message) } else { Action::Deliver(message) });
            if may(self.left.duplicates) {
                actions.push(Action::DeliverTwice(message));
            }
        }
        for side in &self.sides {
            let rank = side.worker.rank();
            if !side.alive {
                let lost = self.life.lost().contains(rank);
                actions.push(if lost { Action::Join(rank) } else { Action::Lose(rank) });
                continue;
            }
            if may(self.left.deaths) {
                actions.push(Action::Die(rank));
            }
            let busy = LANES.iter().any(|lane| side.worker.next(*lane).is_some());
            if busy || !side.inbox.is_empty() {
                actions.push(Action::Step(rank, None));
                for lane in LANES {
                    if may(self.left.superseded) {
                        actions.push(Action::Step(rank, Some((lane, Settled::Superseded))));
                    }
                    if may(self.left.failed) {
                        actions.push(Action::Step(rank, Some((lane, Settled::Failed))));
                    }
                }
            }
            if !side.flights.is_empty() {
                actions.push(Action::Settle(rank));
            }
        }
        for id in self.life.requests() {
            let (Some(view), Some(script)) = (self.life.request(id), self.script(id)) else { continue };
            if may(self.left.aborts) && !view.is_ending() {
                actions.push(Action::Abort(id));
            }
            match view.stage() {
                Stage::Lifted => {
                    let open = view.begun() - view.accepted();
                    if view.begun() < script.steps && open < script.ahead.max(1) {
                        actions.push(Action::Begin(id));
                    }
                    let ran = self.sides[0].ran.get(&id).copied().unwrap_or(0);
                    if open > 0 && view.accepted() < ran {
                        actions.extend((1..=script.tokens).map(|tokens| Action::Accept(id, tokens)));
                    }
                    if view.accepted() == script.steps {
                        actions.push(Action::Finish(id));
                    }
                    if may(self.left.preemptions) && open == 0 {
                        actions.push(Action::Preempt(id));
                    }
                }
                Stage::Preempted => actions.push(Action::Resume(id)),
                _ => {}
            }
        }
        actions
    }

    /// Lets something happen; `false` where it turns out that it cannot.
    pub fn act(&mut self, action: Action) -> bool {
        self.spend(action);
        match action {
            Action::Admit => return self.admit(),
            Action::Post(id) => {
                self.to_post.remove(&id);
                let arrival = self.life.request(id).map(|view| view.arrival());
                let options = self.life.options();
                let all = if arrival == Some(Arrival::Device) {
                    Ranks::first(options.ranks)
                } else {
                    options.writers
                };
                let ranks = all.without(self.dead());
                self.reads.extend(ranks.iter().map(|rank| (id, rank, 0)));
                self.tell(&Event::Posted { request: id, ranks: all, each: 1 });
            }
            Action::Land(request, rank, part, landed) => {
                self.reads.remove(&(request, rank, part));
                if landed {
                    self.land(request, rank);
                }
                let read = if landed { Read::Landed } else { Read::Failed { valid: Tokens::new(1) } };
                self.net.push(Event::Read { request, rank, part, read });
            }
            Action::Deliver(message) | Action::Overtake(message) => {
                let event = self.net.remove(message);
                self.tell_late(&event);
            }
            Action::DeliverTwice(message) => {
                let event = self.net[message].clone();
                self.tell_late(&event);
            }
            Action::Step(rank, fault) => return self.step(rank, fault),
            Action::Settle(rank) => {
                let side = &mut self.sides[rank.get() as usize];
                for ((lane, ticket), (settled, _)) in std::mem::take(&mut side.flights) {
                    let lane = LANES.into_iter().find(|known| *known as u8 == lane).unwrap();
                    side.worker.settle(lane, ticket, settled);
                }
                // Tickets are told apart while they are in flight, which none is now.
                side.next_ticket = 1;
                self.net.extend(side.worker.say());
            }
            Action::Begin(id) => return self.begin(id),
            Action::Accept(id, tokens) => self.accept(id, tokens),
            Action::Finish(request) => self.tell(&Event::Finish { request }),
            Action::Abort(request) => self.tell(&Event::Abort { request }),
            Action::Preempt(request) => self.tell(&Event::Preempt { request }),
            Action::Resume(request) => return self.try_tell(&Event::Resume { request, behind: 1 }).is_ok(),
            Action::Die(rank) => {
                let requests = self.life.options().requests;
                self.sides[rank.get() as usize].die(requests);
                self.reads.retain(|(_, reader, _)| *reader != rank);
            }
            Action::Lose(rank) => self.tell(&Event::RankLost { rank }),
            Action::Join(rank) => {
                let requests = self.life.options().requests;
                self.sides[rank.get() as usize] = Side::new(rank, requests);
                self.memory.device.retain(|(owner, _), _| *owner != rank);
                self.tell(&Event::RankJoined { rank });
            }
        }
        true
    }

    fn spend(&mut self, action: Action) {
        let left = &mut self.left;
        let kind = match action {
            Action::Abort(_) => &mut left.aborts,
            Action::Land(.., false) => &mut left.reads,
            Action::Step(_, Some((_, Settled::Superseded))) => &mut left.superseded,
            Action::Step(_, Some(_)) => &mut left.failed,
            Action::Die(_) => &mut left.deaths,
            Action::DeliverTwice(_) => &mut left.duplicates,
            Action::Overtake(_) => &mut left.reordered,
            Action::Preempt(_) => &mut left.preemptions,
            _ => return,
        };
        *kind -= 1;
        left.all -= 1;
        if left.all == 0 {
            // Which kinds are left does not matter any more.
            *left = Faults::default();
        }
    }

    fn dead(&self) -> Ranks {
        let mut dead = Ranks::NONE;
        self.sides.iter().filter(|side| !side.alive).for_each(|side| dead.insert(side.worker.rank()));
        dead
    }
}
