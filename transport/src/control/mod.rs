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
//! | [`Link`] | the same over a stream that does not block |
//! | [`Listener`], [`connect`] | the same over TCP |
//! | [`Wire`], [`Listen`] | what both engines need of that; tests put faults between |
//!
//! Frames have a limit, and anything that is no message is an error, after which the channel says nothing more.

mod frames;
mod link;
mod message;
mod tcp;

pub use frames::{Frames, Greeting, MOST_FRAME, Nonce, Role, Secret};
pub use link::{Link, Wire};
pub use message::Message;
pub use tcp::{Listen, Listener, connect, nonce};
