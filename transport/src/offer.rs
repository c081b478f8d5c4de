//! What an engine sends to its peer before anything is read: its rank, what its blocks mean, and where they lie.

use pagelift_planner::geometry::{Geometry, Region};
use serde::{Deserialize, Serialize};

use crate::error::{OfferError, SchemaError};
use crate::facts::{Exchange, GroupFacts};
use crate::region::RegionMap;
use crate::schema::{PayloadSchema, VERSION};

/// The largest offer that is taken from a peer, in bytes.
pub const MOST_BYTES: usize = 16 << 20;

/// What an engine sends to its peer before anything is read. The rest of what a transport needs (names and keys of
/// registered memory) is the transport's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// What its blocks mean: equal on both sides.
    pub schema: PayloadSchema,
    /// Its tensor-parallel rank: equal too, for each rank reads from its like.
    pub rank: u32,
    /// Where its blocks lie: never compared.
    pub regions: RegionMap,
}

impl Offer {
    /// An engine's offer of the groups that `facts` names; see [`PayloadSchema::of`] and [`RegionMap::of`].
    ///
    /// # Errors
    /// As these.
    pub fn of(
        geometry: &Geometry,
        exchange: &Exchange,
        facts: &[GroupFacts],
        address: impl Fn(Region) -> u64,
    ) -> Result<Self, OfferError> {
        let schema = PayloadSchema::of(geometry, exchange, facts)?;
        let regions = RegionMap::of(geometry, exchange, facts, address)?;
        let offer = Self { schema, rank: exchange.rank, regions };
        offer.check()?;
        Ok(offer)
    }

    /// The offer as it is sent.
    ///
    /// # Errors
    /// Where it is larger than [`MOST_BYTES`].
    pub fn to_json(&self) -> Result<Vec<u8>, OfferError> {
        let text = serde_json::to_vec(self).map_err(malformed)?;
        within(text.len()).map(|()| text)
    }

    /// An offer that a peer sent. What is in it was checked when this returns: it names no byte outside of its memory.
    ///
    /// # Errors
    /// Where it is larger than [`MOST_BYTES`], of another version, no offer, or does not fit together.
    pub fn parse(text: &[u8]) -> Result<Self, OfferError> {
        /// All that is known of an offer of any version.
        #[derive(Deserialize)]
        struct Any {
            schema: Versioned,
        }
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        within(text.len())?;
        let any: Any = serde_json::from_slice(text).map_err(malformed)?;
        if any.schema.version != VERSION {
            return Err(SchemaError::Version { ours: VERSION, theirs: any.schema.version }.into());
        }
        let offer: Self = serde_json::from_slice(text).map_err(malformed)?;
        offer.check()?;
        Ok(offer)
    }

    /// Refuses what does not fit together: it names no byte outside of its memory. [`Offer::of`] and [`Offer::parse`] have done
    /// that; an offer that came over a control channel has still to be looked at.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> Result<(), OfferError> {
        if self.rank >= self.schema.tp {
            return Err(SchemaError::Rank { rank: self.rank, tp: self.schema.tp }.into());
        }
        self.schema.check()?;
        self.regions.check(&self.schema)?;
        Ok(())
    }
}

fn malformed(error: serde_json::Error) -> OfferError {
    OfferError::Malformed { reason: error.to_string() }
}

fn within(bytes: usize) -> Result<(), OfferError> {
    if bytes > MOST_BYTES { Err(OfferError::TooLarge { bytes, most: MOST_BYTES }) } else { Ok(()) }
}
