//! How a file becomes a checked manifest.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocks;
use super::error::{At, Located, ManifestError, Problem};
use super::format::{GroupSpec, ManifestSpec, Memory, PoolSpec, VERSION};
use super::group::{Group, Side};
use super::json::Json;
use super::layout::Context;
use super::limits;
use super::pool::Pool;
use super::span::Span;
use crate::file::{self, Unopened};
use crate::text;

/// A checked manifest: one import, and the pools it moves between.
#[derive(Debug, Clone)]
pub struct Manifest {
    model: String,
    tensor_parallel: u32,
    speculative_tokens: u32,
    span: Span,
    pools: Vec<Arc<Pool>>,
    groups: Vec<Group>,
    spare: Vec<Vec<u32>>,
}

/// A manifest whose numbers are checked, but whose block ids are not drawn yet: what is known of it at once.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    specs: Vec<GroupSpec>,
    manifest: Manifest,
}

/// Bytes that a run of a manifest takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of all host pools.
    pub host: u64,
    /// Bytes of all device pools.
    pub device: u64,
    /// Bytes that come with them: what allocations are rounded up by, ids, and what is known of each row.
    pub bookkeeping: u64,
    /// Bytes of the largest page.
    pub largest_page: u64,
}

impl Footprint {
    /// All of it: what a machine without a GPU needs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.host.saturating_add(self.device).saturating_add(self.bookkeeping)
    }
}

impl Draft {
    /// Reads a manifest, and checks all but its block ids.
    ///
    /// # Errors
    ///
    /// [`ManifestError`] if the file cannot be read, is too large, is not of the documented shape, or contradicts
    /// itself.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ManifestError> {
        let path = path.as_ref();
        let read_error = |source| ManifestError::Read { path: path.into(), source };
        let file = file::open(path).map_err(|error| match error {
            Unopened::System(source) => read_error(source),
            Unopened::Irregular(kind) => ManifestError::NotAFile { path: path.into(), kind },
        })?;
        let mut text = Vec::new();
        // One byte more than allowed tells a file that is too large, also where its size is not known beforehand.
        file.take(limits::FILE_BYTES + 1).read_to_end(&mut text).map_err(read_error)?;
        if text.len() as u64 > limits::FILE_BYTES {
            return Err(ManifestError::TooLarge { path: path.into(), limit: limits::FILE_BYTES });
        }
        Self::parse(&text, path)
    }

    /// Checks the text of a manifest; `path` is only named in errors.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, ManifestError> {
        let json = read(text, path)?;
        Self::check(&json, path).map_err(|error| located(error, path))
    }

    fn check(json: &Json, path: &Path) -> Result<Self, Located> {
        // The version first: a file of another version should not be refused for a field that is new in it.
        let found = super::read::version(json)?;
        if found != VERSION {
            return Err(Problem::Version { found }).at("version");
        }
        let spec = ManifestSpec::read(json)?;
        let ManifestSpec { model, block_tokens, tensor_parallel, speculative_tokens, prompt_tokens, .. } =
            spec;
        let pools = check_pools(spec.pools)?;
        let context = Context { block_tokens, tensor_parallel, speculative_tokens };
        let groups = check_groups(&spec.groups, &pools, context)?;
        let recurrent = groups.iter().any(|group| group.shape.recurrent);
        let span = Span::new(prompt_tokens, block_tokens, recurrent);
        let spare = Vec::new();
        let manifest = Manifest { model, tensor_parallel, speculative_tokens, span, pools, groups, spare };
        manifest.check_blocks()?;
        manifest.check_work()?;
        Ok(Self { path: path.into(), specs: spec.groups, manifest })
    }

    /// What a run of it will take.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.manifest.footprint()
    }

    /// The same import, of which only whole blocks of so many tokens are handed over; the engine computes the rest.
    #[cfg(feature = "nixl")]
    #[must_use]
    pub fn rounded_down(mut self, block_tokens: impl Fn(&Manifest) -> u64) -> Self {
        let block = block_tokens(&self.manifest).max(1);
        let span = &mut self.manifest.span;
        let rounded = span.resume_at - span.resume_at % block;
        (span.imported_tokens, span.resume_at) = (rounded, rounded);
        self
    }

    /// Gives every group its block ids. In what it returns, a group has exactly the blocks that its import needs:
    ///
    /// | group | host blocks | device pages |
    /// |---|---|---|
    /// | token rows, landing host | all up to the writable page's | lift all: all up to the writable one; tail: the last block's up to that; none: none |
    /// | token rows, landing gpu | none | all up to the writable page |
    /// | ring or state | one if it lands on the host or is mirrored | one if it lands there or is lifted |
    ///
    /// # Errors
    ///
    /// [`ManifestError::Invalid`] if a list has a wrong length or id, or a pool is too small.
    pub fn assign(self) -> Result<Manifest, ManifestError> {
        let Self { path, specs, mut manifest } = self;
        let Manifest { pools, groups, span, .. } = &mut manifest;
        manifest.spare =
            blocks::assign(pools, &specs, groups, span).map_err(|error| located(error, &path))?;
        Ok(manifest)
    }
}

impl Manifest {
    /// Reads and checks a manifest at once.
    #[cfg(test)]
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ManifestError> {
        Draft::load(path)?.assign()
    }

    /// Checks the text of a manifest at once.
    #[cfg(test)]
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, ManifestError> {
        Draft::parse(text, path)?.assign()
    }

    /// Refuses pools that have fewer blocks than the import needs, before work is counted with them.
    fn check_blocks(&self) -> Result<(), Located> {
        for group in &self.groups {
            for (side, needed) in self.sides(group) {
                let (pool, free) = (side.pool.name.clone(), side.pool.blocks.into());
                if needed > free {
                    let place = format!("groups[{}].{}.blocks", group.index, side.pool.memory);
                    return Err(Problem::NotEnoughBlocks { pool, needed, free }).at(place);
                }
            }
        }
        Ok(())
    }

    /// Refuses what would take longer than makes sense.
    fn check_work(&self) -> Result<(), Located> {
        let total = |count: fn(&Pool) -> u64| {
            self.pools.iter().fold(0, |sum: u64, pool| sum.saturating_add(count(pool)))
        };
        let no_more = |what, found, limit| {
            if found > limit { Err(Problem::TooMany { what, found, limit }) } else { Ok(()) }
        };
        let extents = total(|pool| pool.extents().into());
        no_more("the extents of all pools", extents, limits::EXTENTS).at("pools")?;
        no_more("layers × blocks of all pools", total(Pool::pages), limits::PAGES).at("pools")?;
        let what = "the bytes of all pools";
        no_more(what, self.footprint().total(), limits::TOTAL_BYTES).at("pools")?;
        let (mut rows, mut addresses) = (0, 0);
        for group in &self.groups {
            let layers = u64::from(group.layers);
            let segments = group.shape.segments.len() as u64;
            for (side, needed) in self.sides(group) {
                let page = u64::from(side.rows).saturating_mul(segments).saturating_mul(layers);
                rows = page.saturating_mul(needed).saturating_add(rows);
                let regions = layers.saturating_mul(side.kv_regions.count().into());
                addresses = regions.saturating_mul(side.pool.extents().into()).saturating_add(addresses);
            }
        }
        no_more("rows × segments × layers × blocks of all groups", rows, limits::ROWS).at("groups")?;
        no_more("layers × extents of all groups", addresses, limits::ADDRESSES).at("groups")
    }

    /// The sides of a group, and how many blocks the import needs of each.
    fn sides<'m>(&self, group: &'m Group) -> impl Iterator<Item = (&'m Side, u64)> + use<'m> {
        let host = group.host.as_ref().map(|side| (side, group.host_blocks_needed(&self.span).0));
        let device = group.device.as_ref().map(|side| (side, group.device_pages_needed(&self.span).0));
        host.into_iter().chain(device)
    }

    /// What the import is of; for people.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Ranks that heads are split over; the manifest describes one of them.
    #[must_use]
    pub const fn tensor_parallel(&self) -> u32 {
        self.tensor_parallel
    }

    /// Draft tokens of a step.
    #[must_use]
    pub const fn speculative_tokens(&self) -> u32 {
        self.speculative_tokens
    }

    /// Which tokens are imported, and where the consumer resumes.
    #[must_use]
    pub const fn span(&self) -> &Span {
        &self.span
    }

    /// The pools, by index.
    #[must_use]
    pub fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// The groups, by index.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Ids of a pool that no group has: what generated tokens draw from.
    #[must_use]
    pub fn spare_blocks(&self, pool: &Pool) -> &[u32] {
        self.spare.get(pool.index).map_or(&[], Vec::as_slice)
    }

    /// Bytes that the producer hands over.
    #[must_use]
    pub fn handed_over(&self) -> u64 {
        let of_group = |group: &Group| {
            let Some(side) = group.landing_side() else { return 0 };
            let layer = group.shape.content_bytes(side.rows);
            let layer = layer.saturating_mul(group.received_blocks(side, &self.span));
            layer.saturating_mul(group.layers.into())
        };
        self.groups.iter().map(of_group).fold(0, u64::saturating_add)
    }

    /// Bytes that a run takes. Sane manifests may still ask for more memory than a machine has; who allocates should
    /// compare this with what is there.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
        let in_memory = |memory: Memory| {
            sum(&mut self.pools.iter().filter(|pool| pool.memory == memory).map(|pool| pool.bytes()))
        };
        let rows = |group: &Group| {
            let rows = |(side, needed): (&Side, u64)| needed.saturating_mul(side.rows.into());
            sum(&mut self.sides(group).map(rows)).saturating_mul(ROW_BOOKKEEPING)
        };
        let of_pool = |pool: &Arc<Pool>| {
            let ids = u64::from(pool.blocks).saturating_mul(BLOCK_BOOKKEEPING);
            pool.allocated_bytes().saturating_sub(pool.bytes()).saturating_add(ids)
        };
        let bookkeeping = sum(&mut self.pools.iter().map(of_pool).chain(self.groups.iter().map(rows)));
        Footprint {
            host: in_memory(Memory::Host),
            device: in_memory(Memory::Device),
            bookkeeping,
            largest_page: self.pools.iter().map(|pool| pool.page_bytes).max().unwrap_or(0),
        }
    }
}

/// Bytes kept for a block, whoever has it: its id where it is free, twice, and the number of its rows.
const BLOCK_BOOKKEEPING: u64 = 12;
/// Bytes kept for a row of a block of the import, while a list of them grows.
const ROW_BOOKKEEPING: u64 = 48;

fn located(Located { place, problem }: Located, path: &Path) -> ManifestError {
    let place = if place.is_empty() { TOP_LEVEL.to_owned() } else { place };
    ManifestError::Invalid { path: path.into(), place, problem }
}

const TOP_LEVEL: &str = "the top level";

/// The text as values.
fn read(text: &[u8], path: &Path) -> Result<Json, ManifestError> {
    if text.starts_with(b"\xef\xbb\xbf") {
        let problem = "it begins with a byte-order mark: expected UTF-8 without one".into();
        return Err(ManifestError::Encoding { path: path.into(), problem });
    }
    if let Err(error) = std::str::from_utf8(text) {
        let problem = format!("expected UTF-8, but byte {} is none", error.valid_up_to());
        return Err(ManifestError::Encoding { path: path.into(), problem });
    }
    let shape = |place: String, source| ManifestError::Shape { path: path.into(), place, source };
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // A path of "." is the document itself.
        let place = match error.path().to_string() {
            place if place == "." => TOP_LEVEL.to_owned(),
            place => text::escaped(&place),
        };
        shape(place, error.into_inner())
    })?;
    json.end().map_err(|source| shape("the end".to_owned(), source))?;
    Ok(value)
}

fn check_pools(specs: Vec<PoolSpec>) -> Result<Vec<Arc<Pool>>, Located> {
    unique_names("pools", specs.iter().map(|spec| spec.name.as_str()))?;
    let check = |(index, spec)| Ok(Arc::new(Pool::check(index, spec, &format!("pools[{index}]"))?));
    specs.into_iter().enumerate().map(check).collect()
}

fn check_groups(specs: &[GroupSpec], pools: &[Arc<Pool>], context: Context) -> Result<Vec<Group>, Located> {
    unique_names("groups", specs.iter().map(|spec| spec.name.as_str()))?;
    let check = |(index, spec)| Group::check(index, spec, &format!("groups[{index}]"), pools, context);
    specs.iter().enumerate().map(check).collect()
}

fn unique_names<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Located> {
    let mut seen = HashMap::new();
    for (index, name) in names.enumerate() {
        let place = format!("{list}[{index}].name");
        if let Some(first) = seen.insert(name, place.clone()) {
            return Err(Problem::DuplicateName { name: name.to_owned(), first }).at(place);
        }
    }
    Ok(())
}
