//! What a launcher's page maps hold on the device.
//!
//! Row plans keep their maps injective, but each plan only its own: two plans staged through one launcher change the
//! same maps on the device. So the launcher keeps a picture of these, and refuses changes after which two pages would
//! be mirrored to one block. Two workers would write that block at once.

use pagelift_abi::{MapChange, NONE};
use pagelift_planner::geometry::Geometry;
use pagelift_planner::id::{HostBlockId, PageId, PoolId};

use crate::error::LaunchError;

/// No entry uses the block.
const FREE: u32 = u32::MAX;

/// All page maps, one after the other, as the kernels see them.
#[derive(Debug)]
pub(super) struct DeviceMaps {
    groups: Vec<GroupMap>,
    /// The block of each entry, or [`NONE`].
    entries: Vec<i32>,
    /// For each pool, the entry that uses each block.
    users: Vec<Vec<u32>>,
}

/// One group's map.
#[derive(Debug)]
struct GroupMap {
    name: Box<str>,
    first: u32,
    /// One past its last entry.
    end: u32,
    blocks: PoolId,
}

impl DeviceMaps {
    /// Maps of no pages.
    pub fn new(geometry: &Geometry) -> Self {
        let mut end = 0_u32;
        let mut groups = Vec::new();
        for group in geometry.groups() {
            // A group without a second side has nothing to mirror, and no map.
            let (Some(pages), Some(blocks)) = (group.device_pool(), group.host_pool()) else { continue };
            let first = end;
            end = end.saturating_add(geometry.pool(pages).map_or(0, |pool| pool.blocks()));
            groups.push(GroupMap { name: group.name().into(), first, end, blocks });
        }
        Self {
            groups,
            entries: vec![NONE; end as usize],
            users: geometry.pools().iter().map(|pool| vec![FREE; pool.blocks() as usize]).collect(),
        }
    }

    /// Takes the blocks of changes of different entries, until [`DeviceMaps::commit`] or [`DeviceMaps::take_back`].
    /// Where they cannot be had, nothing has changed.
    pub fn claim(&mut self, changes: &[MapChange]) -> Result<(), LaunchError> {
        // All entries that change give up their blocks first: a block may move from one page to another.
        for change in changes {
            self.release(change.entry);
        }
        for change in changes {
            let unmaps = change.block == NONE && self.group(change.entry).is_some();
            let taken = match self.user(change.entry, change.block) {
                _ if unmaps => continue,
                Some(user) if *user == FREE => {
                    *user = change.entry;
                    continue;
                }
                Some(user) => *user,
                None => FREE,
            };
            let conflict = self.conflict(*change, taken);
            self.take_back(changes);
            return Err(conflict);
        }
        Ok(())
    }

    /// Notes that claimed changes were applied.
    pub fn commit(&mut self, changes: &[MapChange]) {
        for change in changes {
            if let Some(entry) = self.entries.get_mut(change.entry as usize) {
                *entry = change.block;
            }
        }
    }

    /// Goes back to what `entries` say, after all or some of these changes took their blocks.
    pub fn take_back(&mut self, changes: &[MapChange]) {
        for change in changes {
            if let Some(user) = self.user(change.entry, change.block).filter(|user| **user == change.entry) {
                *user = FREE;
            }
        }
        for change in changes {
            let block = self.block(change.entry);
            if let Some(user) = self.user(change.entry, block) {
                *user = change.entry;
            }
        }
    }

    /// The entry's block is used by nobody.
    fn release(&mut self, entry: u32) {
        let block = self.block(entry);
        if let Some(user) = self.user(entry, block) {
            *user = FREE;
        }
    }

    fn block(&self, entry: u32) -> i32 {
        self.entries.get(entry as usize).copied().unwrap_or(NONE)
    }

    fn group(&self, entry: u32) -> Option<&GroupMap> {
        let after = self.groups.partition_point(|group| group.end <= entry);
        self.groups.get(after).filter(|group| group.first <= entry)
    }

    /// Who uses `block` of the pool that `entry` maps to.
    fn user(&mut self, entry: u32, block: i32) -> Option<&mut u32> {
        let pool = self.group(entry)?.blocks;
        self.users.get_mut(pool.get() as usize)?.get_mut(usize::try_from(block).ok()?)
    }

    fn conflict(&self, change: MapChange, taken: u32) -> LaunchError {
        let words = |entry: u32| match self.group(entry) {
            Some(group) => format!("{} of group `{}`", PageId::new(entry - group.first), group.name),
            None => "another page".into(),
        };
        let block = HostBlockId::new(change.block.unsigned_abs());
        LaunchError::OtherPageMap { page: words(change.entry), block, user: words(taken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups of three and two pages over one pool of four blocks.
    fn maps() -> DeviceMaps {
        let group =
            |name: &str, first, end| GroupMap { name: name.into(), first, end, blocks: PoolId::new(0) };
        DeviceMaps {
            groups: vec![group("a", 0, 3), group("b", 3, 5)],
            entries: vec![NONE; 5],
            users: vec![vec![FREE; 4]],
        }
    }

    fn change(entry: u32, block: i32) -> MapChange {
        MapChange { entry, block }
    }

    #[test]
    fn blocks_move_and_swap_but_never_have_two_pages() {
        let mut maps = maps();
        let apply = |maps: &mut DeviceMaps, changes: &[MapChange]| {
            maps.claim(changes).unwrap();
            maps.commit(changes);
        };
        apply(&mut maps, &[change(0, 1), change(4, 2)]);
        apply(&mut maps, &[change(0, 2), change(4, 1)]);
        assert_eq!(maps.entries, [2, NONE, NONE, NONE, 1]);
        for refused in [
            vec![change(1, 2)],
            vec![change(1, 3), change(2, 3)],
            vec![change(0, NONE), change(3, 2), change(1, 1)],
            vec![change(0, 3), change(5, 0)],
            vec![change(0, 3), change(1, 4)],
            vec![change(0, 3), change(1, -2)],
            vec![change(5, NONE)],
        ] {
            let before = (maps.entries.clone(), maps.users.clone());
            maps.claim(&refused).unwrap_err();
            assert_eq!((&maps.entries, &maps.users), (&before.0, &before.1), "{refused:?}");
        }
        let before = maps.users.clone();
        maps.claim(&[change(0, 1), change(4, 2), change(2, 0)]).unwrap();
        maps.take_back(&[change(0, 1), change(4, 2), change(2, 0)]);
        assert_eq!(maps.users, before);
        apply(&mut maps, &[change(0, NONE), change(1, 2)]);
        assert_eq!(maps.entries, [NONE, 2, NONE, NONE, 1]);
        let error = maps.claim(&[change(3, 2)]).unwrap_err().to_string();
        assert!(error.starts_with("page 0 of group `b`"), "{error}");
        assert!(error.contains("host block 2") && error.contains("page 1 of group `a`"), "{error}");
    }
}
