//! A conversation that never waits: both ends ask it when they have time.

use std::fmt;
use std::io::{ErrorKind, Read, Write};

use super::frames::{Frames, Greeting, MOST_FRAME, Nonce, Role, Secret};
use super::message::Message;
use crate::error::ControlError;

/// A conversation with one other side. Neither call waits for it.
///
/// [`Link`] is one over a stream. Tests put something between that loses messages or says them twice.
pub trait Wire {
    /// Says something. It leaves when the other side takes it: [`Wire::receive`] goes on with what is left.
    ///
    /// # Errors
    /// Where the conversation is over, the message is too large, or too much is waiting to leave.
    fn send(&mut self, message: &Message) -> Result<(), ControlError>;

    /// What the other side has said next, if that is here.
    ///
    /// # Errors
    /// Where the conversation is over, or what came is no message of who knows the secret.
    fn receive(&mut self) -> Result<Option<Message>, ControlError>;

    /// Whether all that was said has left this process.
    fn is_flushed(&self) -> bool;
}

/// The largest first frame: until it has come, the other side may be anybody, and nothing large is kept for it.
const MOST_FIRST: usize = 1 << 10;

/// The most bytes that wait to leave.
const MOST_WAITING: usize = 2 * MOST_FRAME;

/// The most bytes that are asked of a stream at once.
const CHUNK: usize = 64 << 10;

/// A conversation over a stream that does not block. Nothing but greetings leaves before the other side has shown that it
/// knows the secret.
pub struct Link<S> {
    stream: S,
    own: Greeting,
    secret: Secret,
    state: State,
    /// What is said before the other side has proved itself.
    waiting: Vec<Message>,
    /// Bytes that leave; those before `sent` have left.
    leaving: Vec<u8>,
    sent: usize,
    /// What was read last, so that to ask in vain costs a call and no more.
    chunk: Vec<u8>,
}

enum State {
    /// The other side's greeting so far.
    Greeting(Vec<u8>),
    /// Greeted. The other side has proved itself when its hello has come.
    Greeted { frames: Box<Frames>, proved: bool },
    /// Why it is over.
    Over(ControlError),
}

/// Says nothing of its secret and keys, or of what is said.
impl<S> fmt::Debug for Link<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state: &dyn fmt::Debug = match &self.state {
            State::Greeting(_) => &"greeting",
            State::Greeted { proved: false, .. } => &"greeted",
            State::Greeted { proved: true, .. } => &"proved",
            State::Over(why) => why,
        };
        let mut own = f.debug_struct("Link");
        own.field("role", &self.own.role()).field("state", state);
        own.field("waiting_messages", &self.waiting.len());
        own.field("leaving_bytes", &self.leaving.len().saturating_sub(self.sent));
        own.finish_non_exhaustive()
    }
}

impl<S: Read + Write> Link<S> {
    /// Begins a conversation over a stream that was set not to block. The nonce must never have been used before:
    /// [`super::nonce`] draws one.
    #[must_use]
    pub fn new(stream: S, role: Role, secret: &Secret, nonce: Nonce) -> Self {
        let own = Greeting::new(role, nonce);
        let (leaving, state) = (own.to_bytes().to_vec(), State::Greeting(Vec::new()));
        let (waiting, chunk) = (Vec::new(), Vec::new());
        Self { stream, own, secret: secret.clone(), state, waiting, leaving, sent: 0, chunk }
    }

    /// Goes on as far as it can: to the next message, or until nothing more is here.
    fn advance(&mut self) -> Result<Option<Message>, ControlError> {
        loop {
            self.flush()?;
            let needed = match &mut self.state {
                State::Over(error) => return Err(error.clone()),
                State::Greeting(theirs) => match <&[u8; Greeting::BYTES]>::try_from(theirs.as_slice()) {
                    Ok(theirs) => {
                        let mut frames = Box::new(self.own.answered(&self.secret, theirs)?);
                        frames.take_at_most(MOST_FIRST);
                        let hello = frames.encode(&Message::Hello)?;
                        self.state = State::Greeted { frames, proved: false };
                        self.leave(&hello)?;
                        continue;
                    }
                    Err(_) => Greeting::BYTES.saturating_sub(theirs.len()),
                },
                State::Greeted { frames, proved } => match (frames.next()?, *proved) {
                    (Some(Message::Hello), false) => {
                        frames.take_at_most(MOST_FRAME);
                        *proved = true;
                        for message in std::mem::take(&mut self.waiting) {
                            self.say(&message)?;
                        }
                        continue;
                    }
                    (Some(message), true) if message != Message::Hello => return Ok(Some(message)),
                    (Some(_), _) => return Err(ControlError::Hello),
                    (None, _) => frames.needs(),
                },
            };
            let Some(read) = self.read(needed)? else { return Ok(None) };
            let bytes = self.chunk.get(..read).unwrap_or_default();
            match &mut self.state {
                State::Greeting(theirs) => theirs.extend_from_slice(bytes),
                State::Greeted { frames, .. } => frames.push(bytes),
                State::Over(_) => {}
            }
        }
    }

    /// Reads about as many bytes as are needed into the chunk, if any are there; none of a greeting's successor.
    fn read(&mut self, needed: usize) -> Result<Option<usize>, ControlError> {
        self.chunk.resize(needed.clamp(1, CHUNK), 0);
        loop {
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Err(ControlError::Ended),
                Ok(read) => return Ok(Some(read)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn say(&mut self, message: &Message) -> Result<(), ControlError> {
        match &mut self.state {
            State::Over(error) => Err(error.clone()),
            State::Greeted { frames, proved: true } => {
                let bytes = frames.encode(message)?;
                self.leave(&bytes)?;
                self.flush()
            }
            State::Greeting(_) | State::Greeted { .. } => {
                self.waiting.push(message.clone());
                Ok(())
            }
        }
    }

    fn leave(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        self.leaving.drain(..self.sent);
        self.sent = 0;
        let waiting = self.leaving.len().saturating_add(bytes.len());
        if waiting > MOST_WAITING {
            return Err(ControlError::NotTaken { bytes: waiting, most: MOST_WAITING });
        }
        self.leaving.extend_from_slice(bytes);
        Ok(())
    }

    /// Hands the stream as much as it takes.
    fn flush(&mut self) -> Result<(), ControlError> {
        while let Some(rest) = self.leaving.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(ControlError::Ended),
                Ok(written) => self.sent = self.sent.saturating_add(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What has failed stays so, but for a message that was too large and did not leave.
    fn kept<T>(&mut self, done: Result<T, ControlError>) -> Result<T, ControlError> {
        done.inspect_err(|error| {
            if !matches!(error, ControlError::TooLarge { .. }) {
                self.state = State::Over(error.clone());
            }
        })
    }
}

impl<S: Read + Write> Wire for Link<S> {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let done = self.say(message);
        self.kept(done)
    }

    fn receive(&mut self) -> Result<Option<Message>, ControlError> {
        match self.advance() {
            // Of the other side's, what is too large is the end.
            Err(error) => {
                self.state = State::Over(error.clone());
                Err(error)
            }
            received => received,
        }
    }

    fn is_flushed(&self) -> bool {
        self.sent >= self.leaving.len() && self.waiting.is_empty()
    }
}
