//! How a file becomes a checked manifest.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::blocks;
use super::error::{At, Located, ManifestError, Problem, within};
use super::format::{GroupSpec, ManifestSpec, Memory, PoolSpec, VERSION};
use super::group::Group;
use super::layout::Context;
use super::limits;
use super::pool::Pool;
use super::span::Span;

/// A checked manifest: one import, and the pools it moves between.
#[derive(Debug, Clone)]
pub struct Manifest {
    model: String,
    speculative_tokens: u32,
    span: Span,
    pools: Vec<Arc<Pool>>,
    groups: Vec<Group>,
    spare: Vec<Vec<u32>>,
}

/// Bytes that a run of a manifest takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of all host pools.
    pub host: u64,
    /// Bytes of all device pools.
    pub device: u64,
    /// Bytes of the producer's copy of what it hands over.
    pub producer: u64,
}

impl Footprint {
    /// All of it: what a machine without a GPU needs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.host.saturating_add(self.device).saturating_add(self.producer)
    }
}

impl Manifest {
    /// Reads and checks a manifest.
    ///
    /// In what it returns, a group has exactly the blocks that its import needs:
    ///
    /// | group | host blocks | device pages |
    /// |---|---|---|
    /// | token rows, landing host | all up to the writable page's | lift all: as many; tail: the writable page; none: none |
    /// | token rows, landing gpu | none | all up to the writable page |
    /// | ring or state | one if it lands on the host or is mirrored | one if it lands there or is lifted |
    ///
    /// # Errors
    ///
    /// [`ManifestError`] if the file cannot be read, is too large, is not of the documented shape, or contradicts
    /// itself.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ManifestError> {
        let path = path.as_ref();
        let read_error = |source| ManifestError::Read { path: path.into(), source };
        let mut text = Vec::new();
        // One byte more than allowed tells a file that is too large, also where its size is not known beforehand.
        let file = File::open(path).map_err(read_error)?;
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
        let located =
            |Located { place, problem }| ManifestError::Invalid { path: path.into(), place, problem };
        // The version first: a file of another version should not be refused for a field that is new in it.
        if let Ok(OnlyVersion { version: found }) = serde_json::from_slice(text)
            && found != VERSION
        {
            return Err(Problem::Version { found }).at("version").map_err(located);
        }
        Self::check(read(text, path)?).map_err(located)
    }

    fn check(spec: ManifestSpec) -> Result<Self, Located> {
        let ManifestSpec { model, block_tokens, tensor_parallel, speculative_tokens, prompt_tokens, .. } =
            spec;
        within(prompt_tokens, 1, limits::PROMPT_TOKENS).at("prompt_tokens")?;
        within(block_tokens.into(), 1, limits::BLOCK_TOKENS).at("block_tokens")?;
        within(tensor_parallel.into(), 1, limits::ITEMS).at("tensor_parallel")?;
        within(speculative_tokens.into(), 0, limits::SPECULATIVE_TOKENS).at("speculative_tokens")?;
        let pools = check_pools(spec.pools)?;
        let context = Context { block_tokens, tensor_parallel, speculative_tokens };
        let mut groups = check_groups(&spec.groups, &pools, context)?;
        let recurrent = groups.iter().any(|group| group.shape.recurrent);
        let span = Span::new(prompt_tokens, block_tokens, recurrent);
        let footprint = footprint(&pools, &groups, &span);
        if footprint.total() > limits::TOTAL_BYTES {
            let what = "everything that the pools and the producer hold";
            return Err(Problem::TooManyBytes { what, limit: limits::TOTAL_BYTES }).at("pools");
        }
        let spare = blocks::assign(&pools, &spec.groups, &mut groups, &span)?;
        Ok(Self { model, speculative_tokens, span, pools, groups, spare })
    }

    /// What the import is of; for people.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
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

    /// Ids of a pool that no group has, in a scattered order that follows from the manifest: what generated tokens
    /// draw from.
    #[must_use]
    pub fn spare_blocks(&self, pool: &Pool) -> &[u32] {
        self.spare.get(pool.index).map_or(&[], Vec::as_slice)
    }

    /// Bytes that a run takes. Sane manifests may still ask for more memory than a machine has; who allocates should
    /// compare this with what is there.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        footprint(&self.pools, &self.groups, &self.span)
    }
}

/// Nothing but the version; everything else is left for later.
#[derive(Deserialize)]
struct OnlyVersion {
    version: u64,
}

fn read<T: DeserializeOwned>(text: &[u8], path: &Path) -> Result<T, ManifestError> {
    let shape = |place: String, source| ManifestError::Shape { path: path.into(), place, source };
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // A path of "." is the document itself.
        let place = match error.path().to_string() {
            place if place == "." => "the top level".to_owned(),
            place => place,
        };
        shape(place, error.into_inner())
    })?;
    json.end().map_err(|source| shape("the end".to_owned(), source))?;
    Ok(value)
}

fn check_pools(specs: Vec<PoolSpec>) -> Result<Vec<Arc<Pool>>, Located> {
    within(specs.len() as u64, 1, limits::ITEMS).at("pools")?;
    unique_names("pools", specs.iter().map(|spec| spec.name.as_str()))?;
    let check = |(index, spec)| Ok(Arc::new(Pool::check(index, spec, &format!("pools[{index}]"))?));
    specs.into_iter().enumerate().map(check).collect()
}

fn check_groups(specs: &[GroupSpec], pools: &[Arc<Pool>], context: Context) -> Result<Vec<Group>, Located> {
    within(specs.len() as u64, 1, limits::ITEMS).at("groups")?;
    unique_names("groups", specs.iter().map(|spec| spec.name.as_str()))?;
    let check = |(index, spec)| Group::check(index, spec, &format!("groups[{index}]"), pools, context);
    specs.iter().enumerate().map(check).collect()
}

fn unique_names<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Located> {
    let mut seen = HashMap::new();
    for (index, name) in names.enumerate() {
        let place = format!("{list}[{index}].name");
        if name.is_empty() {
            return Err(Problem::Empty { item: "character" }).at(place);
        }
        if let Some(first) = seen.insert(name, place.clone()) {
            return Err(Problem::DuplicateName { name: name.to_owned(), first }).at(place);
        }
    }
    Ok(())
}

fn footprint(pools: &[Arc<Pool>], groups: &[Group], span: &Span) -> Footprint {
    let in_memory = |memory: Memory| {
        let pools = pools.iter().filter(|pool| pool.memory == memory);
        pools.fold(0, |sum: u64, pool| sum.saturating_add(pool.bytes()))
    };
    let handed_over = |group: &Group| {
        let layer = group.shape.page_bytes(0).saturating_mul(group.received_blocks(span));
        layer.saturating_mul(group.layers.into())
    };
    Footprint {
        host: in_memory(Memory::Host),
        device: in_memory(Memory::Device),
        producer: groups.iter().fold(0, |sum: u64, group| sum.saturating_add(handed_over(group))),
    }
}
