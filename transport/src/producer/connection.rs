//! One rank of D, as P hears it.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Ask, ProducerOptions};
use crate::control::{Message, Wire};
use crate::error::{PairError, ProducerError};
use crate::lease::Moment;
use crate::notice::{ExportId, Notice};
use crate::offer::Offer;

/// A connection.
pub(super) struct Connection<W> {
    number: u64,
    wire: W,
    /// Whether its offer has come, and is this side's.
    paired: bool,
    /// Why it will be closed, once it knows what this side has.
    refused: Option<ProducerError>,
    /// When something was last heard of it.
    heard: Moment,
    asked: VecDeque<Asked>,
    /// Messages that may be heard before others have their turn.
    turns: u32,
}

/// What was asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub ask: Ask,
    /// When D has last said that it waits, by its clock.
    pub sent: Duration,
}

/// What a connection wants done.
pub(super) enum Step {
    /// Nothing more, for now.
    Nothing,
    /// Its offer has come: it wants this side's, whether they fit or not, so that it can say in what they differ.
    Offered {
        fits: bool,
    },
    Heartbeat {
        export: ExportId,
        sent: Duration,
    },
    Notice(Notice),
    Bye,
}

/// Messages of one connection that are heard in one turn.
const TURNS: u32 = 256;

impl<W: Wire> Connection<W> {
    pub const fn new(number: u64, wire: W, now: Moment) -> Self {
        Self { number, wire, paired: false, refused: None, heard: now, asked: VecDeque::new(), turns: 0 }
    }

    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether it has shown that it knows the secret, and means the same by a block.
    pub const fn is_paired(&self) -> bool {
        self.paired
    }

    /// When something was last heard of it, or it came.
    pub const fn heard(&self) -> Moment {
        self.heard
    }

    pub fn is_flushed(&self) -> bool {
        self.wire.is_flushed() || !self.paired
    }

    pub fn say(&mut self, message: &Message) -> Result<(), ProducerError> {
        Ok(self.wire.send(message)?)
    }

    /// Hears the next thing that needs more than this connection.
    pub fn step(
        &mut self,
        now: Moment,
        ours: &Offer,
        options: &ProducerOptions,
        next_ask: &mut u64,
    ) -> Result<Step, ProducerError> {
        if self.refused.is_some() {
            // What is left of this side's offer leaves; what comes means nothing any more.
            self.wire.receive()?;
            let told = self.wire.is_flushed() || now.since(self.heard) >= options.silence_timeout;
            return self.refused.take_if(|_| told).map_or(Ok(Step::Nothing), Err);
        }
        loop {
            self.turns = self.turns.saturating_add(1);
            if self.turns > TURNS {
                self.turns = 0;
                return Ok(Step::Nothing);
            }
            let Some(message) = self.wire.receive()? else {
                self.turns = 0;
                // D says something as often as heartbeats come, even where it has nothing to say.
                let silent = now.since(self.heard);
                if silent >= options.silence_timeout {
                    return Err(ProducerError::Silent { silent });
                }
                return Ok(Step::Nothing);
            };
            self.heard = now;
            let rank = ours.rank;
            match message {
                Message::Offer { offer, .. } if !self.paired => {
                    offer.check().map_err(ProducerError::Offer)?;
                    self.refused = fits(ours, &offer).err().map(ProducerError::Pair);
                    self.paired = self.refused.is_none();
                    return Ok(Step::Offered { fits: self.paired });
                }
                Message::Ask { request, imported, sent } if self.paired => {
                    let (asked, most) = (self.asked.len(), options.most_asked);
                    if asked >= most {
                        return Err(ProducerError::TooManyAsked { most });
                    }
                    let ask = Ask { number: *next_ask, connection: self.number, request, imported, rank };
                    *next_ask = next_ask.saturating_add(1);
                    self.asked.push_back(Asked { ask, sent });
                }
                Message::Heartbeat { export, rank: own, sent } if self.paired && own == rank => {
                    return Ok(Step::Heartbeat { export, sent });
                }
                Message::Notice(notice) if self.paired && notice.rank == rank => {
                    return Ok(Step::Notice(notice));
                }
                Message::Waiting { request, sent } => {
                    // What was asked for before, and given up, is answered as it was asked. Of what was answered, D will hear.
                    let mut all = self.asked.iter_mut().rev();
                    if let Some(asked) = all.find(|asked| asked.ask.request == request) {
                        asked.sent = asked.sent.max(sent);
                    }
                }
                Message::Here => {}
                Message::Bye => return Ok(Step::Bye),
                other => return Err(ProducerError::Unexpected { message: other.name() }),
            }
        }
    }

    /// Requests that wait for an answer.
    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    pub fn next_ask(&mut self) -> Option<Asked> {
        self.asked.pop_front()
    }

    /// The engine has no answer yet. The order stays.
    pub fn ask_again(&mut self, asked: Asked) {
        self.asked.push_back(asked);
    }
}

/// Refuses an offer of another schema or rank.
fn fits(ours: &Offer, theirs: &Offer) -> Result<(), PairError> {
    ours.schema.compare(&theirs.schema)?;
    match (ours.rank, theirs.rank) {
        (ours, theirs) if ours != theirs => Err(PairError::Ranks { ours, theirs }),
        _ => Ok(()),
    }
}
