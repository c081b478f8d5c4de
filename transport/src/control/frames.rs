//! Bytes and messages.
//!
//! A greeting is 48 bytes: a word, the version, the role, and 32 bytes of nonce. A frame is the length of its content (32
//! bits, little-endian), a keyed hash (32 bytes) of its number and its content, and the content, as JSON.

use std::fmt;

use super::message::Message;
use crate::error::ControlError;

/// The largest content of a frame.
pub const MOST_FRAME: usize = 32 << 20;

/// The shortest secret that is taken.
const LEAST_SECRET: usize = 16;

const WORD: &[u8; 11] = b"pagelift-c\n";
const VERSION: u32 = 1;
const GREETING: usize = WORD.len() + 4 + 1 + 32;
const TAG: usize = 32;
const HEADER: usize = 4 + TAG;

/// What both sides know and nobody else.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret from bytes: random ones, 16 at least.
    ///
    /// # Errors
    /// [`ControlError::Secret`] where there are fewer.
    pub fn new(bytes: &[u8]) -> Result<Self, ControlError> {
        if bytes.len() < LEAST_SECRET {
            return Err(ControlError::Secret { bytes: bytes.len(), least: LEAST_SECRET });
        }
        Ok(Self(blake3::derive_key("pagelift control channel 1: secret", bytes)))
    }
}

/// Says nothing of what it is.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Thirty-two bytes that a side draws anew for each conversation.
pub type Nonce = [u8; 32];

/// A side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// P, which is connected to.
    Producer,
    /// D, which connects.
    Consumer,
}

impl Role {
    const fn code(self) -> u8 {
        match self {
            Self::Producer => 0,
            Self::Consumer => 1,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Producer => Self::Consumer,
            Self::Consumer => Self::Producer,
        }
    }
}

/// The first bytes of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Greeting {
    role: Role,
    nonce: Nonce,
}

impl Greeting {
    /// Its size.
    pub const BYTES: usize = GREETING;

    /// The greeting of a side with a nonce that was never used before.
    #[must_use]
    pub const fn new(role: Role, nonce: Nonce) -> Self {
        Self { role, nonce }
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    /// What is sent.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        let parts = [&WORD[..], &VERSION.to_le_bytes(), &[self.role.code()], &self.nonce].concat();
        bytes.copy_from_slice(&parts);
        bytes
    }

    /// The frames that follow, with the greeting that the other side sent.
    ///
    /// # Errors
    /// Where that is no greeting, of another version, or of the same role.
    pub fn answered(&self, secret: &Secret, theirs: &[u8; GREETING]) -> Result<Frames, ControlError> {
        let (word, rest) = theirs.split_at(WORD.len());
        let (version, rest) = rest.split_at(4);
        let (role, nonce) = rest.split_at(1);
        if word != WORD {
            return Err(ControlError::NoGreeting);
        }
        let found = version.iter().rev().fold(0, |sum: u32, byte| (sum << 8) | u32::from(*byte));
        if found != VERSION {
            return Err(ControlError::Version { ours: VERSION, theirs: found });
        }
        if role != [self.role.other().code()] {
            return Err(ControlError::SameRole);
        }
        let (producer, consumer) = match self.role {
            Role::Producer => (&self.nonce[..], nonce),
            Role::Consumer => (nonce, &self.nonce[..]),
        };
        let key = |from: Role| {
            let mut hasher = blake3::Hasher::new_keyed(&secret.0);
            hasher.update(producer).update(consumer).update(&[from.code()]);
            *hasher.finalize().as_bytes()
        };
        let way = |from| Way { key: key(from), number: 0 };
        Ok(Frames {
            send: way(self.role),
            receive: way(self.role.other()),
            waiting: Vec::new(),
            most: MOST_FRAME,
            dead: false,
        })
    }
}

/// One direction.
#[derive(Clone)]
struct Way {
    key: [u8; 32],
    number: u64,
}

impl Way {
    /// The keyed hash of the next frame.
    fn tag(&self, content: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.number.to_le_bytes()).update(content);
        hasher.finalize()
    }

    fn next(&mut self) -> Result<(), ControlError> {
        self.number = self.number.checked_add(1).ok_or(ControlError::Forged)?;
        Ok(())
    }
}

/// What follows the greetings: messages to bytes, and bytes to messages.
///
/// ```
/// use pagelift_transport::control::{Greeting, Message, Role, Secret};
/// let secret = Secret::new(b"sixteen bytes or more")?;
/// let (p, d) = (Greeting::new(Role::Producer, [1; 32]), Greeting::new(Role::Consumer, [2; 32]));
/// let mut producer = p.answered(&secret, &d.to_bytes())?;
/// let mut consumer = d.answered(&secret, &p.to_bytes())?;
/// let bytes = consumer.encode(&Message::Bye)?;
/// producer.push(&bytes);
/// assert_eq!(producer.next()?, Some(Message::Bye));
/// // The same bytes again are not the next frame.
/// producer.push(&bytes);
/// assert!(producer.next().is_err());
/// # Ok::<(), pagelift_transport::error::ControlError>(())
/// ```
pub struct Frames {
    send: Way,
    receive: Way,
    waiting: Vec<u8>,
    /// The largest content that is taken.
    most: usize,
    dead: bool,
}

/// Says nothing of its keys, or of what is in its frames.
impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = f.debug_struct("Frames");
        own.field("sent", &self.send.number).field("received", &self.receive.number);
        own.field("waiting_bytes", &self.waiting.len()).field("dead", &self.dead);
        own.finish_non_exhaustive()
    }
}

impl Frames {
    /// A message as a frame.
    ///
    /// # Errors
    /// Where it is larger than [`MOST_FRAME`].
    pub fn encode(&mut self, message: &Message) -> Result<Vec<u8>, ControlError> {
        let content = serde_json::to_vec(message)
            .map_err(|error| ControlError::Malformed { reason: error.to_string() })?;
        let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= MOST_FRAME);
        let too_large = ControlError::TooLarge { bytes: content.len(), most: MOST_FRAME };
        let length = length.ok_or(too_large)?;
        let tag = self.send.tag(&content);
        self.send.next()?;
        Ok([&length.to_le_bytes()[..], tag.as_bytes(), &content].concat())
    }

    /// Takes no frame with a larger content than this: until a side has shown that it knows the secret, small ones will do.
    /// [`MOST_FRAME`] unless said otherwise, and never more.
    pub fn take_at_most(&mut self, bytes: usize) {
        self.most = bytes.min(MOST_FRAME);
    }

    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// How many bytes the frame that has begun still needs, at least.
    #[must_use]
    pub fn needs(&self) -> usize {
        let header = HEADER.saturating_sub(self.waiting.len());
        if header > 0 {
            return header;
        }
        let whole = HEADER.saturating_add(self.length().unwrap_or(0).min(self.most));
        whole.saturating_sub(self.waiting.len())
    }

    /// The next message, where all of it has come.
    ///
    /// # Errors
    /// Where a frame is too large, not of who knows the secret or not the next one, or no message. Then nothing more comes.
    #[expect(clippy::should_implement_trait, reason = "it fails, and may have more later")]
    pub fn next(&mut self) -> Result<Option<Message>, ControlError> {
        if self.dead {
            return Err(ControlError::Dead);
        }
        let message = self.take();
        self.dead = message.is_err();
        message
    }

    fn take(&mut self) -> Result<Option<Message>, ControlError> {
        let Some(length) = self.length() else { return Ok(None) };
        // Looked at before more is waited for: nobody makes this side keep what it would refuse.
        if length > self.most {
            return Err(ControlError::TooLarge { bytes: length, most: self.most });
        }
        let end = HEADER.saturating_add(length);
        let Some(frame) = self.waiting.get(..end) else { return Ok(None) };
        let (header, content) = frame.split_at(HEADER);
        let tag: [u8; TAG] =
            header.get(4..).and_then(|tag| tag.try_into().ok()).ok_or(ControlError::Forged)?;
        // Comparing hashes takes as long whatever they are.
        if self.receive.tag(content) != blake3::Hash::from_bytes(tag) {
            return Err(ControlError::Forged);
        }
        let message = serde_json::from_slice(content)
            .map_err(|error| ControlError::Malformed { reason: error.to_string() })?;
        self.receive.next()?;
        self.waiting.drain(..end);
        Ok(Some(message))
    }

    /// The length of the frame that has begun, where that has come.
    fn length(&self) -> Option<usize> {
        let bytes: [u8; 4] = self.waiting.get(..4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }
}
