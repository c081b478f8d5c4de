//! What can be wrong, by domain. Every error says what was expected, what came, and where.

mod conversation;
mod import;
mod pairing;
mod schema;

pub use conversation::{ConsumerError, ControlError, ProducerError};
pub use import::{LeaseError, NoticeError, ReadPlanError, ReceiveError, WantedError};
pub use pairing::{OfferError, PairError, RangeFault, RegionError};
pub use schema::SchemaError;
