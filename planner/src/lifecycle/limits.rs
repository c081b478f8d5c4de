//! What the groups of an engine allow: what others may find, and how long a request may be.

use serde::{Deserialize, Serialize};

use super::frames::{GroupFrames, Scale};
use crate::geometry::{Geometry, Landing, Memory};
use crate::id::GroupId;

/// What host blocks give back of all that their tokens have left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restores {
    /// Not all: some group has rows or states on the device alone. Nobody finds a block, and a rank that is lost takes preempted
    /// requests with it.
    Nothing,
    /// All, to the request that they are of: some group has a block for each request, as rings do. Nobody else finds a block.
    Requests,
    /// All, to whoever finds them.
    #[default]
    Prefixes,
}

/// What the groups of an engine allow: [`GroupFrames::limits`](super::GroupFrames::limits) works it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameLimits {
    /// What host blocks give back.
    pub restores: Restores,
    /// The most blocks that a request has at one time, from its first on: some group may have pages for no more.
    pub positions: u32,
}

impl FrameLimits {
    /// No limits: every group's rows and states are in host blocks, and none has pages that are a request's own.
    pub const NONE: Self = Self { restores: Restores::Prefixes, positions: u32::MAX };
}

/// [`FrameLimits::NONE`].
impl Default for FrameLimits {
    fn default() -> Self {
        Self::NONE
    }
}

impl GroupFrames {
    /// What all groups of a geometry allow a lifecycle with blocks of so many tokens: what others may find, and how long a request
    /// may be. It goes into [`LifecycleOptions::limits`](super::LifecycleOptions::limits), the least of all ranks.
    #[must_use]
    pub fn limits(geometry: &Geometry, block_tokens: u32, frames: &[Self]) -> FrameLimits {
        let scale = Scale { geometry, block_tokens: block_tokens.into() };
        let framed = |id: GroupId| frames.iter().any(|frames| frames.id() == id);
        let groups = (0..).map(GroupId::new).zip(geometry.groups());
        // What lands on the device, and has no frames, is there alone.
        let alone = groups.into_iter().any(|(id, group)| group.landing() == Landing::Device && !framed(id));
        let all = if alone { Restores::Nothing } else { Restores::Prefixes };
        FrameLimits {
            restores: frames.iter().map(|frames| frames.restores(geometry)).fold(all, Ord::min),
            positions: frames.iter().map(|frames| frames.positions(scale)).fold(u32::MAX, Ord::min),
        }
    }

    /// What of the group its host blocks give back.
    fn restores(&self, geometry: &Geometry) -> Restores {
        let Some(group) = geometry.group(self.id()) else { return Restores::Nothing };
        match self {
            Self::ReadOnly(_) => Restores::Nothing,
            _ if group.to_host.is_none() || group.to_device.is_none() => Restores::Nothing,
            // Its blocks are those of the requests' slots; or what landed is on the device, until a preemption writes it back.
            Self::Ring { .. } => Restores::Requests,
            _ if !group.is_lifted() => Restores::Requests,
            _ => Restores::Prefixes,
        }
    }

    /// For how many of the lifecycle's blocks a request has pages, of the last perhaps some.
    fn positions(&self, scale: Scale<'_>) -> u32 {
        match self {
            Self::Whole { group, each, .. } => {
                let own = u32::try_from(scale.each(group.id(), Memory::Device)).unwrap_or(u32::MAX);
                each.div_ceil(own.max(1))
            }
            Self::ReadOnly(frames) => frames.positions(scale),
            Self::Paged { .. } | Self::Ring { .. } | Self::State { .. } => u32::MAX,
        }
    }
}
