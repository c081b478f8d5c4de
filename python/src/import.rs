//! Which blocks of a prompt arrive, and which page is written next.

use pagelift::import::{self, Arrival, Policy, Recurrence};
use pagelift::quantity::Tokens;
use pagelift_bindings::import::{OwnedGroup, OwnedImport};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::keys::GroupKey;
use crate::words::{List, Numbers, Word};

/// Which tokens of a prompt are imported, and the first that the decoder computes.
///
/// `recurrence` is `"none"` for attention-only models: all tokens are imported, and the last is computed again for its logits.
/// It is `"state"` where any group keeps recurrent state: the last token is not imported, for a state must not absorb it twice.
/// Raises `SpanError` for a prompt of no tokens.
#[pyclass(frozen, eq, from_py_object, module = "pagelift")]
#[derive(Clone, PartialEq, Eq)]
pub struct PromptSpan(pub import::PromptSpan);

#[pymethods]
impl PromptSpan {
    #[new]
    #[pyo3(signature = (prompt_tokens, recurrence=Word(Recurrence::None)))]
    fn new(prompt_tokens: u64, recurrence: Word<Recurrence>) -> PyResult<Self> {
        Ok(Self(import::PromptSpan::new(Tokens::new(prompt_tokens), recurrence.0).or_raise()?))
    }

    /// A span as the engine decided it. Raises `SpanError` where more is imported than the prompt has, or decoding does not
    /// resume at the token after the imported ones or at the last of them, inside the prompt.
    #[staticmethod]
    fn explicit(prompt_tokens: u64, imported_tokens: u64, resume_at: u64) -> PyResult<Self> {
        let [prompt, imported, resume] = [prompt_tokens, imported_tokens, resume_at].map(Tokens::new);
        Ok(Self(import::PromptSpan::explicit(prompt, imported, resume).or_raise()?))
    }

    /// Tokens of the prompt.
    #[getter]
    fn prompt_tokens(&self) -> u64 {
        self.0.prompt().get()
    }

    /// Tokens imported.
    #[getter]
    fn imported_tokens(&self) -> u64 {
        self.0.imported().get()
    }

    /// The first token that the decoder computes.
    #[getter]
    fn resume_at(&self) -> u64 {
        self.0.resume_at().get()
    }

    /// The same span in blocks of `block_tokens` slots.
    fn in_blocks_of(&self, block_tokens: u64) -> PyResult<BlockSpan> {
        Ok(BlockSpan(self.0.in_blocks_of(Tokens::new(block_tokens)).or_raise()?))
    }

    fn __repr__(&self) -> String {
        format!("PromptSpan({})", self.0)
    }
}

/// A prompt's span in blocks of one size.
#[pyclass(frozen, eq, module = "pagelift")]
#[derive(PartialEq, Eq)]
pub struct BlockSpan(import::BlockSpan);

#[pymethods]
impl BlockSpan {
    /// Token slots of a block.
    #[getter]
    fn block_tokens(&self) -> u64 {
        self.0.block_tokens().get()
    }

    /// Blocks received.
    #[getter]
    fn received(&self) -> u32 {
        self.0.received()
    }

    /// Token slots of the received blocks.
    #[getter]
    fn capacity(&self) -> u64 {
        self.0.capacity().get()
    }

    /// Slots of the received blocks that hold no imported token.
    #[getter]
    fn holes(&self) -> u64 {
        self.0.holes().get()
    }

    /// The writable page: the one that `resume_at` lies in.
    #[getter]
    fn tail_page(&self) -> u32 {
        self.0.tail_page()
    }

    /// Imported tokens in the writable page, possibly none.
    #[getter]
    fn tail_tokens(&self) -> u64 {
        self.0.tail_tokens().get()
    }

    /// Blocks up to the writable page, that one included.
    #[getter]
    fn endpoints(&self) -> u32 {
        self.0.endpoints()
    }

    fn __repr__(&self) -> String {
        format!("BlockSpan({})", self.0)
    }
}

/// What a policy decided for one import.
#[pyclass(frozen, get_all, module = "pagelift")]
pub struct Decision {
    /// What is imported, and where decoding resumes.
    span: Py<PromptSpan>,
    /// The same in blocks.
    blocks: Py<BlockSpan>,
    /// Where it arrives: `"host-then-lift"`, `"host"` (nothing is lifted, because the writable page begins empty) or `"device"`.
    arrival: &'static str,
    /// Pages that the import needs on the device before it starts; the writable one is among them.
    pages: u32,
    /// Prompt tokens that are left to the decoder: 1 where it only replays or computes the last.
    left: u64,
}

/// Decides what becomes of a prompt's partly filled last block, in blocks of `block_tokens` tokens, with `free_pages` pages free.
///
/// `policy` is `"lift-tail"` (received and lifted into one page; the default), `"round-down"` (left out: the decoder computes its
/// tokens again) or `"land-on-device"` (on the device with all blocks before it, where there are pages enough). Raises `SpanError`
/// where the prompt is empty or a block has no slots.
#[pyfunction]
#[pyo3(signature = (prompt_tokens, *, block_tokens, free_pages, recurrence=Word(Recurrence::None), policy=Word(Policy::LiftTail)))]
pub fn decide(
    py: Python<'_>,
    prompt_tokens: u64,
    block_tokens: u64,
    free_pages: u32,
    recurrence: Word<Recurrence>,
    policy: Word<Policy>,
) -> PyResult<Decision> {
    let (prompt, block) = (Tokens::new(prompt_tokens), Tokens::new(block_tokens));
    let decided = policy.0.decide(prompt, recurrence.0, block, free_pages).or_raise()?;
    Ok(Decision {
        span: Py::new(py, PromptSpan(decided.span))?,
        blocks: Py::new(py, BlockSpan(decided.blocks))?,
        arrival: match decided.arrival {
            Arrival::HostThenLift => "host-then-lift",
            Arrival::Host => "host",
            Arrival::Device => "device",
        },
        pages: decided.pages,
        left: decided.left.get(),
    })
}

#[pymethods]
impl Decision {
    fn __repr__(&self) -> String {
        let Self { span, arrival, pages, left, .. } = self;
        format!("Decision({}, {arrival}, pages={pages}, left={left})", span.get().0)
    }
}

/// The blocks and pages of one group of an import.
///
/// `blocks` are its host blocks and `pages` its pages, as sequences of integers or one-dimensional integer arrays on the host. A
/// paged group's blocks are those from the prompt's first on, in order, up to that of `resume_at`; its pages are the writable one
/// where it lifts the tail, and all up to it where it lifts all. A ring or a state has one block and one page.
#[pyclass(frozen, from_py_object, module = "pagelift")]
#[derive(Clone)]
pub struct ImportGroup {
    name: String,
    own: OwnedGroup,
}

#[pymethods]
impl ImportGroup {
    #[new]
    fn new(group: GroupKey, blocks: Numbers, pages: Numbers) -> Self {
        Self { own: OwnedGroup::new(group.key, blocks.0, pages.0), name: group.name }
    }

    /// A group whose blocks landed on the device this time, though it usually lands on the host: nothing is lifted.
    #[staticmethod]
    fn landed(group: GroupKey, pages: Numbers) -> Self {
        Self { own: OwnedGroup::landed(group.key, pages.0), name: group.name }
    }

    fn __repr__(&self) -> String {
        let (blocks, pages) = self.own.lengths();
        format!("ImportGroup({:?}, {blocks} blocks, {pages} pages)", self.name)
    }
}

/// One prompt's imported blocks, group by group: `span` says its tokens, `groups` its blocks.
#[pyclass(frozen, module = "pagelift")]
pub struct Import(pub OwnedImport);

#[pymethods]
impl Import {
    #[new]
    fn new(span: PromptSpan, groups: List<ImportGroup>) -> Self {
        Self(OwnedImport { span: span.0, groups: groups.0.into_iter().map(|group| group.own).collect() })
    }

    /// Its tokens.
    #[getter]
    fn span(&self) -> PromptSpan {
        PromptSpan(self.0.span)
    }

    fn __repr__(&self) -> String {
        format!("Import({}, {} groups)", self.0.span, self.0.groups.len())
    }
}
