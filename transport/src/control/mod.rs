//! The control channel: what two engines say to each other beside the reads, over any stream of bytes.
//!
//! Both hold a secret. Each sends a greeting with a nonce that it drew; from the secret and both nonces follow a key for
//! each direction, and every frame after that carries a keyed hash of its number and content. So a frame cannot be made,
//! changed, left out, sent twice, or sent back by who lacks the secret, nor taken from an earlier conversation. It can be
//! read: run it over a network that is your own, or over a tunnel.
//!
//! | type | question it answers |
//! |---|---|
//! | [`Secret`] | who may speak? |
//! | [`Greeting`] | is there somebody, of the same version? |
//! | [`Frames`] | which bytes stand for which message? Pure: bytes in, messages out |
//! | [`Message`] | what is said |
//! | [`Channel`] | the same over a stream, one message at a time |
//!
//! Frames have a limit, and anything that is no message is an error, after which the channel says nothing more.

mod channel;
mod frames;
mod message;

pub use channel::Channel;
pub use frames::{Frames, Greeting, MOST_FRAME, Nonce, Role, Secret};
pub use message::Message;
