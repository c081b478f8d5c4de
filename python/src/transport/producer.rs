//! P's end: what D's ranks ask for is polled, and granted or refused.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pagelift_transport::control::{Listener, Secret, nonce};
use pagelift_transport::lease::{Moment, RankEnd, Terms};
use pagelift_transport::nixl;
use pagelift_transport::notice::ReadOutcome;
use pagelift_transport::producer::{self, Answer, Exporter, Freed, ProducerEvent, ProducerOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::agent::{Agent, Held};
use super::counted::counted;
use super::error::{OrRaise as _, Raised, TransportError, closed};
use super::offer::Offer;
use super::seconds::Seconds;
use super::tables::Tables;
use crate::data::told;
use crate::error::of_kind;
use crate::locks::{lock, take, without_interpreter};

/// What a rank of D asks for. Two asks are equal where they are the same one: D that asks once more has another.
#[pyclass(frozen, eq, hash, from_py_object, module = "pagelift.transport")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ask(producer::Ask);

#[pymethods]
impl Ask {
    /// The request, by the number that both engines know it by.
    #[getter]
    fn request(&self) -> u64 {
        self.0.request
    }

    /// Tokens that D imports.
    #[getter]
    fn imported(&self) -> u64 {
        self.0.imported.get()
    }

    /// The rank that asks, and that will read.
    #[getter]
    fn rank(&self) -> u32 {
        self.0.rank
    }

    fn __repr__(&self) -> String {
        let producer::Ask { request, imported, rank, .. } = self.0;
        format!("Ask(request {request}, {imported}, rank {rank})")
    }
}

/// The engine of the library's producer: its answers wait here for the next poll.
#[derive(Default)]
struct Answers {
    /// What was asked for, with the answer where there is one.
    waiting: HashMap<producer::Ask, Option<Answer<()>>>,
    asked: Vec<producer::Ask>,
    withdrawn: Vec<producer::Ask>,
    freed: Vec<Freed<()>>,
}

impl Exporter for Answers {
    type Blocks = ();

    fn export(&mut self, ask: &producer::Ask) -> Answer<()> {
        match self.waiting.remove(ask) {
            Some(Some(answer)) => return answer,
            Some(None) => {}
            None => self.asked.push(*ask),
        }
        self.waiting.insert(*ask, None);
        Answer::NotYet
    }

    fn withdrawn(&mut self, ask: &producer::Ask) {
        // Of what was not said to be asked for, nothing is said.
        if self.waiting.remove(ask).is_some() {
            self.withdrawn.push(*ask);
        }
    }

    fn free(&mut self, freed: Freed<()>) {
        self.freed.push(freed);
    }
}

/// A producer, with what it is polled with.
struct Serving {
    // Dropped in this order: the agent goes before its memory.
    producer: producer::Producer<std::sync::Arc<nixl::Agent>, Listener, ()>,
    answers: Answers,
    clock: Instant,
    _held: Held,
}

/// P's end, of one rank: it takes connections of D's ranks, and holds what the engine has exported until nobody reads it.
///
/// `agent` has the memory of `offer` registered. It listens at `address`, such as `"127.0.0.1:0"`, where the system chooses the port;
/// what is said there can be read by others on its network. `secret` is sixteen bytes or more, drawn at random, that D has too.
/// `lease`, `heartbeat` and `margin` are seconds: how long blocks are held after D was last heard, how often D is to be heard, and how
/// much earlier D stops believing in the lease. `most_exports`, `most_connections` and `most_asked` (of one connection) are what there
/// may be at one time. `incarnation` tells this process's exports from those of one before; drawn at random unless said.
///
/// Raises `ControlError` where it cannot listen or the secret is short, `NixlError` where the memory is not registered, and
/// `TransportError` where a lease is shorter than two heartbeats and the margin.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct Producer(Mutex<Option<Serving>>);

#[pymethods]
impl Producer {
    #[new]
    #[pyo3(signature = (
        agent, offer, address, secret, *, lease=Seconds(Terms::default().lease), heartbeat=Seconds(Terms::default().heartbeat),
        margin=Seconds(Terms::default().margin), most_exports=4096, most_connections=256, most_asked=1024, incarnation=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        agent: &Agent,
        offer: &Offer,
        address: &str,
        secret: &[u8],
        lease: Seconds,
        heartbeat: Seconds,
        margin: Seconds,
        most_exports: usize,
        most_connections: usize,
        most_asked: usize,
        incarnation: Option<u64>,
    ) -> PyResult<Self> {
        let (held, _) = agent.with(py, offer)?;
        let secret = Secret::new(secret).or_raise()?;
        let incarnation = incarnation.map_or_else(drawn, Ok)?;
        let terms = Terms { lease: lease.0, heartbeat: heartbeat.0, margin: margin.0 };
        let limits = ProducerOptions::new(incarnation);
        let options = ProducerOptions { terms, most_exports, most_connections, most_asked, ..limits };
        let listener = Listener::bind(address_of(address)?, &secret).or_raise()?;
        let transfer = std::sync::Arc::clone(&held.agent);
        let producer = producer::Producer::new(transfer, listener, offer.offer.clone(), options);
        let (producer, answers, clock) = (producer.or_raise()?, Answers::default(), Instant::now());
        Ok(Self(Mutex::new(Some(Serving { producer, answers, clock, _held: held }))))
    }

    /// Goes on, and returns what happened: a list of dictionaries by `event`. It does not wait; call it a few times for each heartbeat at
    /// least.
    ///
    /// - `connected`, `closed`: a `connection`, by its number; `why` it was closed is an exception, or `None` where D is done.
    /// - `asked`: an `ask`, to be answered once by `grant` or `refuse`, now or later.
    /// - `withdrawn`: an `ask` whose connection is over. It needs no answer, and one that was given exports nothing.
    /// - `granted`: what an `ask` has got is held as `export` from now on. `refused`: it has got nothing, for a `reason`.
    /// - `freed`: no rank reads the `export` of an `ask` any more, and its blocks are free. `end` is how it ended for the rank: `read`,
    ///   `failed` or `cancelled`, as D has said; `expired`, where D was not heard for the lease; or `gone`.
    /// - `unreached`: the system brings no connections, for `why`: this process may have as many files open as it may. It is tried
    ///   again in each poll, and this is said once.
    ///
    /// Raises `NixlError` where the transport is broken. All that a peer does is an event.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (events, asked, withdrawn, freed) = {
            let mut serving = lock(py, &self.0)?;
            let Serving { producer, answers, clock, .. } = serving.as_mut().ok_or_else(closed)?;
            let events = py.detach(|| producer.poll(|| Moment::now(*clock), answers)).or_raise()?;
            for event in &events {
                if let ProducerEvent::Granted { ask, .. } | ProducerEvent::Refused { ask, .. } = event {
                    answers.waiting.remove(ask);
                }
            }
            let (asked, withdrawn) = (mem::take(&mut answers.asked), mem::take(&mut answers.withdrawn));
            (events, asked, withdrawn, mem::take(&mut answers.freed))
        };
        let mut told = Vec::new();
        for event in events {
            told.extend(of_event(py, event)?);
        }
        for ask in asked {
            told.push(of_ask(py, "asked", ask)?);
        }
        for ask in withdrawn {
            told.push(of_ask(py, "withdrawn", ask)?);
        }
        for freed in &freed {
            told.push(of_freed(py, freed)?);
        }
        Ok(told)
    }

    /// Exports the blocks of each group, by position: `{"main": [5, 2]}` for those from position 0 on, or
    /// `{"main": {"first": 3, "blocks": [7, None], "digests": [...]}}` with `None` where there is no block, and a number for the rows of
    /// each block where D is to check them. Their rows are complete in memory when this is called, and stay as they are until the
    /// export is freed. The next poll sends it, and says `granted`.
    ///
    /// Raises `TransportError` where the ask does not wait for an answer, `ValueError` for a dictionary that is no table, `TypeError` for
    /// what is no list of blocks by name, and `OverflowError` for a number that no block has.
    fn grant(&self, py: Python<'_>, ask: Ask, blocks: Tables) -> PyResult<()> {
        self.answer(py, ask, Answer::Export { tables: blocks.0, blocks: () })
    }

    /// Exports nothing, for a reason that D's engine is told. Raises as `grant` does.
    fn refuse(&self, py: Python<'_>, ask: Ask, reason: String) -> PyResult<()> {
        self.answer(py, ask, Answer::Refuse { reason })
    }

    /// Takes no new connections and exports nothing more. What is exported is held as before; `is_finished` says when it is free.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.serving(py, |serving| serving.producer.stop())
    }

    /// Whether it was stopped, and holds nothing any more.
    #[getter]
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        self.serving(py, |serving| serving.producer.is_finished())
    }

    /// Exports that are held.
    #[getter]
    fn held(&self, py: Python<'_>) -> PyResult<usize> {
        self.serving(py, |serving| serving.producer.held())
    }

    /// Connections that are open.
    #[getter]
    fn connections(&self, py: Python<'_>) -> PyResult<usize> {
        self.serving(py, |serving| serving.producer.connections())
    }

    /// Where it listens: `host:port`, with the port that the system chose.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<String> {
        let address = self.serving(py, |serving| serving.producer.listener().address())?;
        Ok(address.or_raise()?.to_string())
    }

    /// Sums since it was made, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (producer, exports) = self.serving(py, |serving| serving.producer.counters())?;
        counted!(py,
            producer: [turned_away, misbehaved, granted, freed, expired, heartbeats, strange_notices],
            exports: [duplicate, unknown],
        )
    }

    /// Closes the socket and all connections. Exports are not held any more, though D may be reading them: `stop`, and poll until
    /// `is_finished`, before this. Later calls are errors.
    ///
    /// Raises `LaunchError` inside of a function that `replay` calls.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let serving = take(py, &self.0)?;
        py.detach(|| drop(serving));
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &*lock(py, &self.0)? {
            Some(Serving { producer, .. }) => {
                format!("Producer({} connections, {} exports)", producer.connections(), producer.held())
            }
            None => "Producer(closed)".to_owned(),
        })
    }
}

impl Producer {
    fn serving<T>(&self, py: Python<'_>, look: impl FnOnce(&mut Serving) -> T) -> PyResult<T> {
        lock(py, &self.0)?.as_mut().map(look).ok_or_else(closed)
    }

    fn answer(&self, py: Python<'_>, ask: Ask, answer: Answer<()>) -> PyResult<()> {
        let taken = self.serving(py, |serving| match serving.answers.waiting.get_mut(&ask.0) {
            Some(own @ None) => {
                *own = Some(answer);
                true
            }
            _ => false,
        })?;
        if taken {
            return Ok(());
        }
        let text = format!("{} does not wait for an answer: it has one, or was withdrawn", ask.__repr__());
        Err(of_kind::<TransportError>("NotAsked", text))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let serving = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        without_interpreter(|| drop(serving));
    }
}

/// A number that nobody has drawn before.
fn drawn() -> io::Result<u64> {
    Ok(nonce()?.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// An address as text. A `ValueError` where it is none.
pub fn address_of(address: &str) -> PyResult<SocketAddr> {
    address.parse().map_err(|_| {
        pyo3::exceptions::PyValueError::new_err(format!(
            "{address:?} is no address; expected one such as 127.0.0.1:7700 or [::1]:7700"
        ))
    })
}

fn of_event(py: Python<'_>, event: ProducerEvent) -> PyResult<Option<Bound<'_, PyDict>>> {
    let dictionary = PyDict::new(py);
    match event {
        ProducerEvent::Connected { connection } => {
            dictionary.set_item("event", "connected")?;
            dictionary.set_item("connection", connection)?;
        }
        ProducerEvent::Closed { connection, why } => {
            dictionary.set_item("event", "closed")?;
            dictionary.set_item("connection", connection)?;
            dictionary.set_item("why", why.map(|why| why.raised().into_value(py)))?;
        }
        ProducerEvent::Granted { ask, export } => {
            dictionary.set_item("event", "granted")?;
            dictionary.set_item("ask", Ask(ask))?;
            dictionary.set_item("export", told(py, &export)?)?;
        }
        ProducerEvent::Refused { ask, reason } => {
            dictionary.set_item("event", "refused")?;
            dictionary.set_item("ask", Ask(ask))?;
            dictionary.set_item("reason", reason)?;
        }
        ProducerEvent::Unreached { why } => {
            dictionary.set_item("event", "unreached")?;
            dictionary.set_item("why", why.raised().into_value(py))?;
        }
        _ => return Ok(None),
    }
    Ok(Some(dictionary))
}

fn of_ask<'py>(py: Python<'py>, event: &str, ask: producer::Ask) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    dictionary.set_item("event", event)?;
    dictionary.set_item("ask", Ask(ask))?;
    Ok(dictionary)
}

fn of_freed<'py>(py: Python<'py>, freed: &Freed<()>) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = of_ask(py, "freed", freed.ask)?;
    dictionary.set_item("export", told(py, &freed.export)?)?;
    let end = match freed.end {
        RankEnd::Heard(ReadOutcome::Read) => "read",
        RankEnd::Heard(ReadOutcome::Failed) => "failed",
        RankEnd::Heard(ReadOutcome::Cancelled) => "cancelled",
        RankEnd::Expired => "expired",
        RankEnd::Gone => "gone",
    };
    dictionary.set_item("end", end)?;
    Ok(dictionary)
}
