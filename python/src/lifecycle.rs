//! Who may see which block, and when memory may be used again: an engine's scheduler asks.
//!
//! Events, effects and orders are plain data, and in Python dictionaries: with the names that they have in logs.

use std::sync::Mutex;

use pagelift::id::{HostBlockId, PageId};
use pagelift::import::Recurrence;
use pagelift::lifecycle::{
    self, ContentHash, Event, FrameLimits, LifecycleOptions, Rank, Ranks, RequestId, Restores,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data::{parsed, told};
use crate::error::OrRaise;
use crate::locks::lock;
use crate::words::{List, Word};

/// Who may see which block, and what may be used again, of all requests of an engine: one, at its scheduler.
///
/// It takes events and returns effects; ranks are told by `orders`, and answer with events (`Runner` does both). It has no clock, and
/// does no input or output. Events, effects and orders are dictionaries with the names that Rust's `Event`, `Effect` and `Order` have
/// in JSON: `{"event": "begin", "request": request, "tokens": 1}`. A request's id is the dictionary that `admitted` brings, a content
/// hash 32 hexadecimal digits.
///
/// `ranks` are the workers, 1 to 64; `writers` those that write host blocks (all unless said: right where each has its own heads; one
/// where all have the same rows). `block_tokens` are the tokens of a block and of a page. `recurrence` is `"state"` where the model has
/// states. There is room for so many `requests`, `blocks` and `pages`. `keep` sealed pages stay behind each one that is written.
/// `draft_lag` is the number of steps after which a draft layer's rows are final (0 to 2). A lift that failed is tried again `retries`
/// times.
///
/// `restores` says what host blocks give back of all that their tokens have left behind: `"prefixes"`, where all of it is in them, in
/// every group; `"requests"`, where some group has a block for each request, as rings do, or states that land on the device, so that
/// nobody else finds a block; `"nothing"`, where some group is on the device alone, so that a lost rank takes preempted requests with it,
/// too. `positions` are the most blocks of a request, where some group has pages for no more. Raises `LifecycleError` for options that
/// cannot be.
#[pyclass(frozen, module = "pagelift")]
pub struct Lifecycle(pub Mutex<lifecycle::Lifecycle>);

#[pymethods]
impl Lifecycle {
    #[new]
    #[pyo3(signature = (*, ranks=1, writers=None, block_tokens, recurrence=Word(Recurrence::None), requests, blocks, pages, keep=0, draft_lag=0, retries=1, restores=Word(Restores::Prefixes), positions=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        ranks: u8,
        writers: Option<List<u8>>,
        block_tokens: u32,
        recurrence: Word<Recurrence>,
        requests: u32,
        blocks: u32,
        pages: u32,
        keep: u32,
        draft_lag: u32,
        retries: u32,
        restores: Word<Restores>,
        positions: Option<u32>,
    ) -> PyResult<Self> {
        let writers = match writers {
            None => Ranks::first(ranks),
            Some(numbers) => numbers.0.into_iter().fold(Ranks::NONE, |mut writers, number| {
                writers.insert(Rank::new(number));
                writers
            }),
        };
        let recurrence = recurrence.0;
        let options = LifecycleOptions {
            ranks,
            writers,
            block_tokens,
            recurrence,
            requests,
            blocks,
            pages,
            keep,
            draft_lag,
            retries,
            limits: FrameLimits { restores: restores.0, positions: positions.unwrap_or(u32::MAX) },
        };
        Ok(Self(Mutex::new(lifecycle::Lifecycle::new(options).or_raise()?)))
    }

    /// What it looks after, a dictionary: each rank's runner is bound with it, there or through a pipe.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let options = lock(py, &self.0)?.options();
        told(py, &options)
    }

    /// Takes an event, and returns what is to be done: a list of effects, in that order.
    ///
    /// Raises `ValueError` for what is no event, `LifecycleError` where it makes no sense now, or there is no room for what it asks.
    /// Nothing has changed then, but what was counted.
    fn apply<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = event.py();
        let event: Event<'static> = parsed("an event", event)?;
        let effects = lock(py, &self.0)?.apply(&event).map(<[_]>::to_vec).or_raise()?;
        told(py, &effects)
    }

    /// What all ranks are told of the last event, in that order: for `Runner.hear`, there or through a pipe.
    fn orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let orders = lock(py, &self.0)?.orders().collect::<Vec<_>>();
        told(py, &orders)
    }

    /// What is known of a request, or `None` where it is over: `stage`, `begun` (steps), `next_token`, `durable` (tokens whose rows are
    /// safe in the host pool), `blocks` by position, and `pages` as `(position, page, state)`.
    fn request<'py>(&self, request: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = request.py();
        let id: RequestId = parsed("a request", request)?;
        let looked = lock(py, &self.0)?.request(id).map(|view| {
            let blocks: Vec<u32> = view.blocks().iter().map(|block| block.get()).collect();
            let pages = view.pages().map(|(position, page, state)| (position, page.get(), word(&state)));
            let pages: Vec<_> = pages.collect();
            (word(&view.stage()), view.begun(), view.next_token().get(), view.durable().get(), blocks, pages)
        });
        let Some((stage, begun, next_token, durable, blocks, pages)) = looked else { return Ok(None) };
        let known = PyDict::new(py);
        known.set_item("stage", stage)?;
        known.set_item("begun", begun)?;
        known.set_item("next_token", next_token)?;
        known.set_item("durable", durable)?;
        known.set_item("blocks", blocks)?;
        known.set_item("pages", pages)?;
        Ok(Some(known))
    }

    /// The block that others find by a content hash, or `None`.
    fn find(&self, py: Python<'_>, hash: &str) -> PyResult<Option<u32>> {
        let hash = u128::from_str_radix(hash, 16)
            .map_err(|error| PyValueError::new_err(format!("not a content hash: {error}")))?;
        Ok(lock(py, &self.0)?.find(ContentHash::new(hash)).map(HostBlockId::get))
    }

    /// How many requests use a block.
    fn users(&self, py: Python<'_>, block: u32) -> PyResult<u32> {
        Ok(lock(py, &self.0)?.users(HostBlockId::new(block)))
    }

    /// The request that holds a page, or `None`.
    fn holder<'py>(&self, py: Python<'py>, page: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let holder = lock(py, &self.0)?.holder(PageId::new(page));
        holder.map(|request| told(py, &request)).transpose()
    }

    /// Pages that nobody holds.
    #[getter]
    fn free_pages(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(py, &self.0)?.free_pages())
    }

    /// Blocks that nobody uses and nobody finds.
    #[getter]
    fn free_blocks(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(py, &self.0)?.free_blocks())
    }

    /// Blocks that a request could have: free ones, and those that others find and nobody uses.
    #[getter]
    fn available_blocks(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(py, &self.0)?.available_blocks())
    }

    /// Sums since it was made, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counters = lock(py, &self.0)?.counters();
        told(py, &counters)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(py, &self.0)?.requests().count())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let lifecycle = lock(py, &self.0)?;
        let (pages, blocks) = (lifecycle.free_pages(), lifecycle.available_blocks());
        Ok(format!(
            "Lifecycle({} requests, {pages} pages free, {blocks} blocks available)",
            lifecycle.requests().count()
        ))
    }
}

/// The name of a variant without fields, as a word.
fn word(variant: &impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}
