//! A side that knows the secret, and says what it likes: frames as the documentation of the channel has them.

use std::io::{Read, Write};

use pagelift_transport::control::{Greeting, Message, Role};

use super::pipe::{Pipe, SECRET};

/// Such a side's end of a conversation.
pub(super) struct Forged {
    pipe: Pipe,
    role: Role,
    heard: Vec<u8>,
    /// Its own key, once the other side has greeted, and the next frame's number.
    key: Option<([u8; 32], u64)>,
}

/// Of either side.
const NONCE: [u8; 32] = [0xEE; 32];

const HEADER: usize = 4 + 32;

impl Forged {
    /// It greets.
    pub fn new(mut pipe: Pipe, role: Role) -> Self {
        // The other end is there still.
        let _: std::io::Result<()> = pipe.write_all(&Greeting::new(role, NONCE).to_bytes());
        Self { pipe, role, heard: Vec::new(), key: None }
    }

    /// Says anything, with a keyed hash that is right. Nothing before the other side has greeted.
    pub fn say(&mut self, content: &[u8]) {
        self.listen();
        let Some((key, number)) = &mut self.key else { return };
        let mut tag = blake3::Hasher::new_keyed(key);
        tag.update(&number.to_le_bytes()).update(content);
        *number += 1;
        let length = (content.len() as u32).to_le_bytes();
        let frame = [&length[..], tag.finalize().as_bytes(), content].concat();
        self.raw(&frame);
    }

    /// Says bytes that are no frame.
    pub fn raw(&mut self, bytes: &[u8]) {
        // Who has closed the conversation hears nothing.
        let _: std::io::Result<()> = self.pipe.write_all(bytes);
    }

    /// What the other side has said since this was last asked.
    pub fn hear(&mut self) -> Vec<Message> {
        self.listen();
        let mut messages = Vec::new();
        while self.key.is_some()
            && let Some(header) = self.heard.get(..HEADER)
            && let length = header[..4].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
            && let Some(content) = self.heard.get(HEADER..HEADER + length)
        {
            messages.push(serde_json::from_slice(content).expect("an honest side says messages"));
            self.heard.drain(..HEADER + length);
        }
        messages
    }

    fn listen(&mut self) {
        // At the end of what is here there is an error.
        let _: std::io::Result<usize> = self.pipe.read_to_end(&mut self.heard);
        if self.key.is_none() && self.heard.len() >= Greeting::BYTES {
            let theirs: Vec<u8> = self.heard.drain(..Greeting::BYTES).skip(Greeting::BYTES - 32).collect();
            let (producer, consumer, code) = match self.role {
                Role::Producer => (&NONCE[..], &theirs[..], 0),
                Role::Consumer => (&theirs[..], &NONCE[..], 1),
            };
            let secret = blake3::derive_key("pagelift control channel 1: secret", SECRET);
            let mut key = blake3::Hasher::new_keyed(&secret);
            key.update(producer).update(consumer).update(&[code]);
            self.key = Some((*key.finalize().as_bytes(), 0));
        }
    }
}
