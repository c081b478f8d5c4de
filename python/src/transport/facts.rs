//! What an engine says of its groups that no geometry knows.

use std::collections::BTreeMap;

use pagelift::geometry::Memory;
use pagelift::quantity::Tokens;
use pagelift_transport::facts::{self, Element};
use pyo3::Borrowed;
use pyo3::prelude::*;

use crate::data::parsed;
use crate::words::{List, Word};

/// The type of a segment's values, and the shape of all of them in a row.
struct Values(Element, Vec<u32>);

impl<'py> FromPyObject<'_, 'py> for Values {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (element, List(shape)): (Bound<'py, PyAny>, List<u32>) = object.extract()?;
        Ok(Self(parsed("a type of values", &element)?, shape))
    }
}

/// What an engine says of one group: which of its sides is exchanged, and what the values are. Nothing is guessed from sizes.
///
/// `memory` is where its main side is exchanged, `"host"` or `"device"`: P's is where it exports from, D's where it lands. `segments`
/// says for each segment of a row, or part of a state, by its name what it holds: `(type, shape)`, such as `("bf16", [576])`. Types are
/// `bf16`, `f16`, `f32`, `e4m3`, `e5m2`, `ue8m0`, `u8`, `i64`, and `{"mixed": name}` for a format of several, whose shape counts bytes.
/// `other_segments` says the same of every segment that is not named. All of the group is on every rank where it is
/// `whole_on_every_rank`; otherwise each rank has its own heads or channels. `draft` groups belong to draft layers. `live_blocks` are
/// the states that a request keeps at one time. `in_blocks_of` are the tokens of its blocks, where they are others than the engine's.
/// `on_device` is the GPU that it lies on, as the transport counts them; it means nothing in host memory.
#[pyclass(frozen, from_py_object, module = "pagelift.transport")]
#[derive(Clone)]
pub struct GroupFacts {
    /// The library's.
    pub facts: facts::GroupFacts,
    /// Its name.
    pub name: String,
    /// Where its main side is exchanged.
    pub memory: Memory,
}

#[pymethods]
impl GroupFacts {
    #[new]
    #[pyo3(signature = (
        name, memory, *, segments=BTreeMap::new(), other_segments=None, whole_on_every_rank=false, draft=false, live_blocks=1,
        in_blocks_of=None, on_device=0
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        name: String,
        memory: Word<Memory>,
        segments: BTreeMap<String, Values>,
        other_segments: Option<Values>,
        whole_on_every_rank: bool,
        draft: bool,
        live_blocks: u32,
        in_blocks_of: Option<u64>,
        on_device: u64,
    ) -> Self {
        let memory = memory.0;
        let mut own = facts::GroupFacts::new(&name, memory).live_blocks(live_blocks).on_device(on_device);
        for (segment, Values(element, shape)) in segments {
            own = own.segment(&segment, element, &shape);
        }
        if let Some(Values(element, shape)) = other_segments {
            own = own.other_segments(element, &shape);
        }
        if whole_on_every_rank {
            own = own.whole_on_every_rank();
        }
        if draft {
            own = own.draft();
        }
        if let Some(tokens) = in_blocks_of {
            own = own.in_blocks_of(Tokens::new(tokens));
        }
        Self { facts: own, name, memory }
    }

    fn __repr__(&self) -> String {
        format!("GroupFacts({:?}, {})", self.name, self.memory.name())
    }
}

/// What an engine says of itself: the tokens of the blocks that tables name, its tensor-parallel `rank` of `tp`, and how else it is
/// parallel (`pp` stages, `pcp` and `dcp` ranks of context parallelism), of which only 1 is built. A pool may keep a block as several
/// pages.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct Exchange(pub facts::Exchange);

#[pymethods]
impl Exchange {
    #[new]
    #[pyo3(signature = (block_tokens, *, rank=0, tp=1, pp=1, pcp=1, dcp=1))]
    fn new(block_tokens: u64, rank: u32, tp: u32, pp: u32, pcp: u32, dcp: u32) -> Self {
        let exchange = facts::Exchange::new(Tokens::new(block_tokens));
        Self(exchange.rank(rank, tp).parallel(pp, pcp, dcp))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
