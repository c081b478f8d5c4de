//! A control channel over a stream, such as a TCP connection.

use std::io::{Read, Write};

use super::frames::{Frames, Greeting, Nonce, Role, Secret};
use super::message::Message;
use crate::error::ControlError;

/// The most bytes that are asked of a stream at once.
const CHUNK: usize = 64 << 10;

/// A control channel. How long a side waits is the stream's to say: set its timeouts.
pub struct Channel<S> {
    stream: S,
    frames: Frames,
}

impl<S: Read + Write> Channel<S> {
    /// Greets, and waits for the other side's greeting. The nonce must never have been used before.
    ///
    /// # Errors
    /// Where the stream fails, or the other side greets wrongly.
    pub fn open(mut stream: S, role: Role, secret: &Secret, nonce: Nonce) -> Result<Self, ControlError> {
        let own = Greeting::new(role, nonce);
        stream.write_all(&own.to_bytes())?;
        stream.flush()?;
        let mut theirs = [0; Greeting::BYTES];
        stream.read_exact(&mut theirs)?;
        Ok(Self { stream, frames: own.answered(secret, &theirs)? })
    }

    /// Says something.
    ///
    /// # Errors
    /// Where it is too large, or the stream fails.
    pub fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let bytes = self.frames.encode(message)?;
        self.stream.write_all(&bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Waits for what the other side says next.
    ///
    /// # Errors
    /// Where the stream fails or ends, or what comes is no message of who knows the secret.
    pub fn receive(&mut self) -> Result<Message, ControlError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            if let Some(message) = self.frames.next()? {
                return Ok(message);
            }
            let wanted = self.frames.needs().clamp(1, CHUNK);
            let chunk = chunk.get_mut(..wanted).unwrap_or_default();
            match self.stream.read(chunk)? {
                0 => return Err(ControlError::Ended),
                read => self.frames.push(chunk.get(..read).unwrap_or_default()),
            }
        }
    }
}
