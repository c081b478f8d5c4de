//! The payload schema: what the bytes of a block mean. Both sides must mean the same.
//!
//! The comparison walks what is sent, field by field, so that none can be forgotten.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pagelift_planner::geometry::{Geometry, Group, GroupKind, SideView};
use pagelift_planner::id::GroupId;
use pagelift_planner::layout::ConvOrder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::SchemaError;
use crate::facts::{Element, Exchange, GroupFacts, Sharing};

/// The version of the schema that this crate speaks.
pub const VERSION: u32 = 1;

/// What the blocks of all exchanged groups mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PayloadSchema {
    /// [`VERSION`].
    pub version: u32,
    /// Tensor-parallel ranks.
    pub tp: u32,
    /// Stages of pipeline parallelism: 1.
    pub pp: u32,
    /// Ranks of prefill context parallelism: 1.
    pub pcp: u32,
    /// Ranks of decode context parallelism: 1.
    pub dcp: u32,
    /// By their names.
    pub groups: BTreeMap<Arc<str>, GroupSchema>,
}

/// What the blocks of one group mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSchema {
    /// What may be done with its blocks.
    pub kind: GroupKind,
    /// Layers.
    pub layers: u32,
    /// Token slots of a block: a ring's slots, 1 for states.
    pub block_tokens: u32,
    /// Tokens that share a row: more than 1 where keys are compressed.
    pub tokens_per_row: u32,
    /// Rows of a block; 1 for states.
    pub rows: u32,
    /// In which order the window of a state's convolution lies.
    pub conv_order: Option<ConvOrder>,
    /// Whether it belongs to draft layers.
    pub draft: bool,
    /// What each rank holds of it.
    pub sharing: Sharing,
    /// State blocks that a request keeps at one time.
    pub live_blocks: u32,
    /// By their names; where they lie in a block is no part of the schema.
    pub segments: BTreeMap<Arc<str>, SegmentSchema>,
}

/// What the rows of one segment mean, or one part of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentSchema {
    /// Bytes of a row.
    pub row_bytes: u32,
    /// The type of its values.
    pub element: Element,
    /// The shape of its values.
    pub shape: Vec<u32>,
}

/// A field in which two schemas differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The way to the field, such as `groups.main.segments.latent.row_bytes`.
    pub field: String,
    /// What this side has there, as JSON; `absent` where it has nothing.
    pub ours: String,
    /// What the other side has there.
    pub theirs: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, ours, theirs } = self;
        write!(f, "`{field}` is {ours} here and {theirs} there")
    }
}

impl PayloadSchema {
    /// The schema of the groups that `facts` names.
    ///
    /// # Errors
    /// Where `facts` names a group, side or segment that is not there, or one twice, or says too little or what does not fit
    /// the geometry, blocks are no 2ⁿ pages, or the engine is parallel in a way that is not built.
    pub fn of(geometry: &Geometry, exchange: &Exchange, facts: &[GroupFacts]) -> Result<Self, SchemaError> {
        let Exchange { tp, pp, pcp, dcp, rank, .. } = *exchange;
        if rank >= tp {
            return Err(SchemaError::Rank { rank, tp });
        }
        let mut groups = BTreeMap::new();
        for own in facts {
            let schema = GroupSchema::of(geometry, exchange, own)?;
            if groups.insert(own.name.clone(), schema).is_some() {
                return Err(SchemaError::GroupTwice { group: own.name.clone() });
            }
        }
        let schema = Self { version: VERSION, tp, pp, pcp, dcp, groups };
        schema.check()?;
        Ok(schema)
    }

    /// What is refused even where both sides agree.
    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        for (field, found) in [("pp", self.pp), ("pcp", self.pcp), ("dcp", self.dcp)] {
            if found != 1 {
                return Err(SchemaError::Parallel { field, found });
            }
        }
        for (name, group) in &self.groups {
            let zero = |field| SchemaError::Zero { group: name.clone(), field };
            let numbers = [
                ("layers", group.layers),
                ("block_tokens", group.block_tokens),
                ("tokens_per_row", group.tokens_per_row),
                ("rows", group.rows),
                ("live_blocks", group.live_blocks),
            ];
            if let Some((field, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
                return Err(zero(field));
            }
            if group.rows.checked_mul(group.tokens_per_row) != Some(group.block_tokens) {
                return Err(SchemaError::Rows {
                    group: name.clone(),
                    block_tokens: group.block_tokens,
                    tokens_per_row: group.tokens_per_row,
                    rows: group.rows,
                });
            }
            if group.segments.is_empty() {
                return Err(zero("segments"));
            }
            for (segment, own) in &group.segments {
                own.check(name, segment)?;
            }
        }
        Ok(())
    }

    /// Refuses a peer's schema that is not equal to this one.
    ///
    /// ```
    /// use pagelift_transport::schema::PayloadSchema;
    /// let schema = |tp: u32| -> PayloadSchema {
    ///     PayloadSchema { version: 1, tp, pp: 1, pcp: 1, dcp: 1, groups: Default::default() }
    /// };
    /// let refused = schema(2).compare(&schema(4)).err().map(|error| error.to_string());
    /// assert_eq!(refused.as_deref(), Some("the payload schemas differ: `tp` is 2 here and 4 there"));
    /// ```
    ///
    /// # Errors
    /// [`SchemaError::Differs`] with every field in which they differ, and both values of each; of other versions only that,
    /// for their fields may mean something else.
    pub fn compare(&self, theirs: &Self) -> Result<(), SchemaError> {
        if self.version != theirs.version {
            return Err(SchemaError::Version { ours: self.version, theirs: theirs.version });
        }
        let json = |schema: &Self| {
            serde_json::to_value(schema)
                .map_err(|error| SchemaError::Unwritable { reason: error.to_string() })
        };
        let mut mismatches = Vec::new();
        differences("", Some(&json(self)?), Some(&json(theirs)?), &mut mismatches);
        if mismatches.is_empty() { Ok(()) } else { Err(SchemaError::Differs { mismatches }) }
    }
}

/// Notes the fields in which two documents differ. Objects are walked; anything else is a value, a list too.
fn differences(field: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Mismatch>) {
    if ours == theirs {
        return;
    }
    if let (Some(Value::Object(own)), Some(Value::Object(other))) = (ours, theirs) {
        let mut names: Vec<&String> = own.keys().chain(other.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
            differences(&field, own.get(name), other.get(name), found);
        }
        return;
    }
    let shown = |value: Option<&Value>| match value {
        None => "absent".to_owned(),
        // Of a group or segment that one side lacks, the name is enough.
        Some(Value::Object(_)) if ours.is_none() || theirs.is_none() => "present".to_owned(),
        Some(value) => value.to_string(),
    };
    found.push(Mismatch { field: field.to_owned(), ours: shown(ours), theirs: shown(theirs) });
}

/// The side of a group that is exchanged.
pub(crate) fn side<'a>(
    geometry: &'a Geometry,
    facts: &GroupFacts,
) -> Result<(&'a Group, SideView<'a>), SchemaError> {
    let group = &facts.name;
    let mut groups = (0..).map(GroupId::new).zip(geometry.groups());
    let found = groups.find(|(_, own)| own.name() == &**group);
    let (id, own) = found.ok_or_else(|| SchemaError::NoSuchGroup { group: group.clone() })?;
    let memory = facts.memory;
    let side = geometry.side_view(id, memory);
    Ok((own, side.ok_or_else(|| SchemaError::NoSuchSide { group: group.clone(), memory: memory.name() })?))
}

/// Pages that a block of the exchange takes in a side's pool.
pub(crate) fn pages_per_block(
    kind: GroupKind,
    exchange: &Exchange,
    side: SideView<'_>,
    facts: &GroupFacts,
) -> Result<u32, SchemaError> {
    if kind != GroupKind::Paged {
        return Ok(1);
    }
    let block = facts.block_tokens.unwrap_or(exchange.block_tokens).get();
    let page = side.slots().get();
    let pages = block.checked_div(page).filter(|pages| pages.is_power_of_two());
    pages
        .filter(|pages| pages.checked_mul(page) == Some(block))
        .and_then(|pages| u32::try_from(pages).ok())
        .ok_or_else(|| SchemaError::UnevenBlock {
            group: facts.name.clone(),
            block_tokens: block,
            page_tokens: page,
        })
}

impl GroupSchema {
    fn of(geometry: &Geometry, exchange: &Exchange, facts: &GroupFacts) -> Result<Self, SchemaError> {
        let (group, side) = side(geometry, facts)?;
        let name = &facts.name;
        let pages = pages_per_block(group.kind(), exchange, side, facts)?;
        let fits = |what, found: u64| {
            u32::try_from(found).map_err(|_| SchemaError::Overflow { group: name.clone(), what, found })
        };
        let block_tokens = side.slots().get().saturating_mul(pages.into());
        let rows = u64::from(side.rows().get()).saturating_mul(pages.into());
        let mut segments = BTreeMap::new();
        for segment in side.segments() {
            let own = facts.segments.iter().find(|(own, ..)| &**own == segment.name());
            let own = own.map(|(_, element, shape)| (element, shape));
            let others = facts.others.as_ref().map(|(element, shape)| (element, shape));
            let name: Arc<str> = segment.name().into();
            let (element, shape) = own.or(others).ok_or_else(|| SchemaError::NothingSaid {
                group: facts.name.clone(),
                segment: name.clone(),
            })?;
            let own = SegmentSchema {
                row_bytes: segment.row_bytes(),
                element: element.clone(),
                shape: shape.clone(),
            };
            segments.insert(name, own);
        }
        for (segment, ..) in &facts.segments {
            if !segments.contains_key(segment) {
                return Err(SchemaError::NoSuchSegment { group: name.clone(), segment: segment.clone() });
            }
        }
        Ok(Self {
            kind: group.kind(),
            layers: group.layers(),
            block_tokens: fits("the tokens of a block", block_tokens)?,
            tokens_per_row: fits("the tokens of a row", side.tokens_per_row().get())?,
            rows: fits("the rows of a block", rows)?,
            conv_order: side.conv_order(),
            draft: facts.draft,
            sharing: facts.sharing,
            live_blocks: facts.live_blocks,
            segments,
        })
    }

    /// Bytes of all rows of a block of one layer.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.segments.values().fold(0, |sum, segment| sum.saturating_add(segment.row_bytes.into()))
    }
}

impl SegmentSchema {
    /// Refuses a row that does not hold the values that are said to be in it.
    fn check(&self, group: &Arc<str>, segment: &Arc<str>) -> Result<(), SchemaError> {
        let values = self.shape.iter().try_fold(1_u32, |product, &length| product.checked_mul(length));
        let bytes = values.and_then(|values| values.checked_mul(self.element.bytes()));
        if bytes == Some(self.row_bytes) && self.row_bytes > 0 {
            return Ok(());
        }
        Err(SchemaError::Shape {
            group: group.clone(),
            segment: segment.clone(),
            row_bytes: self.row_bytes,
            element: self.element.clone(),
            shape: self.shape.clone(),
        })
    }
}
