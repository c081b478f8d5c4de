//! D's end: imports are begun, and polled until they have ended.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagelift::lifecycle::{Rank, Ranks, RequestId};
use pagelift::quantity::Tokens;
use pagelift_transport::consumer::{self, ConsumerEvent, ConsumerOptions, End, Notices, Wanted};
use pagelift_transport::control::{Link, Secret, connect};
use pagelift_transport::error::ConsumerError;
use pagelift_transport::lease::Moment;
use pagelift_transport::nixl;
use pagelift_transport::plan::ReadLimits;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::agent::{Agent, Held};
use super::counted::counted;
use super::error::{OrRaise as _, Raised, TransportError, closed};
use super::mapped::Landing;
use super::offer::Offer;
use super::producer::address_of;
use super::seconds::Seconds;
use super::tables::Tables;
use crate::data::{parsed, told};
use crate::error::of_kind;
use crate::locks::{take, turn, without_interpreter};
use crate::words::{Word, Words};

impl Words for Notices {
    const WHAT: &'static str = "notices";
    const ALL: &'static [(&'static str, Self)] = &[("control", Self::Control), ("transfer", Self::Transfer)];
}

/// A consumer, with what it is polled with.
struct Reading {
    // Dropped in this order: the agent goes before its memory.
    consumer: consumer::Consumer<Arc<nixl::Agent>, Link<TcpStream>, u64>,
    landing: Landing,
    /// What a lifecycle calls the imports that it has asked for.
    ids: HashMap<u64, RequestId>,
    rank: Rank,
    clock: Instant,
    _held: Held,
}

/// D's end, of one rank and one P: a connection, and imports in flight over it.
///
/// `agent` has the memory of `offer` registered. It connects to a `Producer` at `address` with its `secret`, and waits for that at most
/// `connect_timeout` seconds, without the interpreter; for nothing else. Reads have at most `most_bytes` bytes (64 MiB unless said
/// otherwise): smaller ones tell more exactly what is valid when one fails. The other times are seconds: `greeting_timeout` is how long P may
/// take to greet and to send its offer, `grant_timeout` how long to grant an export, `read_timeout` how long the reads of an import may take,
/// `stop_timeout` how long reads that were told to stop may take until the engine hears that they are stuck, and `presence_interval` how
/// often P hears something. `notices` go over the `"control"` channel, where P hears each; or over the `"transfer"`, which does not say
/// whether they arrive. Each goes the other way where its own is lost.
///
/// Raises `ControlError` where nobody is there or the secret is short, `NixlError` where the memory is not registered, and `TransportError`
/// where the offer's rank is none that a lifecycle has, 0 to 63. A wrong secret, or blocks that mean something else, are the event `lost`.
#[pyclass(frozen, module = "pagelift.transport")]
pub struct Consumer(Mutex<Option<Reading>>);

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(signature = (
        agent, offer, address, secret, *, connect_timeout=Seconds(Duration::from_secs(10)), most_bytes=None,
        greeting_timeout=Seconds(ConsumerOptions::default().greeting_timeout),
        grant_timeout=Seconds(ConsumerOptions::default().grant_timeout),
        read_timeout=Seconds(ConsumerOptions::default().read_timeout),
        stop_timeout=Seconds(ConsumerOptions::default().stop_timeout),
        presence_interval=Seconds(ConsumerOptions::default().presence_interval), notices=Word(Notices::default())
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        agent: &Agent,
        offer: &Offer,
        address: &str,
        secret: &[u8],
        connect_timeout: Seconds,
        most_bytes: Option<u64>,
        greeting_timeout: Seconds,
        grant_timeout: Seconds,
        read_timeout: Seconds,
        stop_timeout: Seconds,
        presence_interval: Seconds,
        notices: Word<Notices>,
    ) -> PyResult<Self> {
        let rank = rank_of(offer)?;
        let (held, mapped) = agent.with(py, offer)?;
        let (secret, address) = (Secret::new(secret).or_raise()?, address_of(address)?);
        let mut read_limits = ReadLimits::default();
        read_limits.most_bytes = most_bytes.unwrap_or(read_limits.most_bytes);
        let options = ConsumerOptions {
            read_limits,
            greeting_timeout: greeting_timeout.0,
            grant_timeout: grant_timeout.0,
            read_timeout: read_timeout.0,
            stop_timeout: stop_timeout.0,
            presence_interval: presence_interval.0,
            notices: notices.0,
            ..ConsumerOptions::default()
        };
        let wire = py.detach(|| connect(address, &secret, connect_timeout.0)).or_raise()?;
        let (clock, transfer) = (Instant::now(), Arc::clone(&held.agent));
        let begun = consumer::Consumer::new(transfer, wire, offer.offer.clone(), options, Moment::now(clock));
        Ok(Self(Mutex::new(Some(Reading {
            consumer: begun.or_raise()?,
            landing: Landing(mapped),
            ids: HashMap::new(),
            rank,
            clock,
            _held: held,
        }))))
    }

    /// Wants an import read: so many `imported` tokens of the request that both engines know by that number. It is asked for as soon as
    /// P's offer is here.
    ///
    /// `blocks` are those to fill, by position, without those that are here already: tables as `Producer.grant` takes them, or as
    /// `WantedBy.tables` makes them. With none, P is notified and that is all. Where a lifecycle has asked for it, `id` is its id of the
    /// request, and the end brings its event. `awaited` says whether the engine waits to hear that all bytes are here.
    ///
    /// Raises `TransportError` where the connection is over, or an import of that request is in flight; `ValueError` for what is no
    /// id, and for tables what `Producer.grant` raises.
    #[pyo3(signature = (request, imported, blocks, *, id=None, awaited=true))]
    fn begin(
        &self,
        py: Python<'_>,
        request: u64,
        imported: u64,
        blocks: Tables,
        id: Option<&Bound<'_, PyAny>>,
        awaited: bool,
    ) -> PyResult<()> {
        let id: Option<RequestId> = id.map(|id| parsed("a request", id)).transpose()?;
        let wanted = Wanted { request, imported: Tokens::new(imported), blocks: blocks.0, awaited };
        self.reading(py, |reading| {
            reading.consumer.begin(request, wanted).or_raise()?;
            reading.ids.extend(id.map(|id| (request, id)));
            Ok(())
        })?
    }

    /// The client does not want an import any more. Its end comes all the same, once nothing writes its blocks.
    fn cancel(&self, py: Python<'_>, request: u64) -> PyResult<()> {
        self.reading(py, |reading| reading.consumer.cancel(request))
    }

    /// Goes on, and returns what happened: a list of dictionaries by `event`. Call it a few times for each heartbeat at least.
    ///
    /// It waits for nobody, but where P lacks a state that this side wants: its block is zeroed when the import begins, as by
    /// `Registry.write`, which waits for the registry's launches. While a stream of theirs is being captured that is refused, and the
    /// import fails.
    ///
    /// - `paired`: P's offer is here, and its blocks mean the same.
    /// - `begun`: P has granted the import of `request` as `export`, whose blocks at the positions that were wanted are the tables
    ///   `exported`. So many `reads` of so many `bytes` are in flight, and `zeroed` bytes that no block of P has are zeros.
    /// - `ended`: the import of `request` is over, and nothing writes its blocks. `landed` says whether all bytes are here, `awaited`
    ///   whether somebody waited for them. Where they are not, `why` is an exception, and `valid` says for each group by its name how many
    ///   tokens from the prompt's first on are valid. `lifecycle` is the event for `Lifecycle.apply`, as it is, where `begin` was given an
    ///   id and there is something to say; otherwise `None`.
    /// - `stuck`: reads of the import of `request` were told to stop long ago, and have not ended. Wait on, or close all that has the
    ///   agent: memory that nobody can reach any more is written by nobody.
    /// - `lost`: the connection is over; `why` is an exception. Imports in flight still end, nothing more can be begun.
    ///
    /// Raises `LaunchError` inside of a function that `replay` calls.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (events, rank) = self.reading(py, |reading| {
            let Reading { consumer, landing, ids, rank, clock, .. } = reading;
            let events = py.detach(|| consumer.poll(|| Moment::now(*clock), landing));
            let known = events.into_iter().map(|event| {
                let id = match &event {
                    ConsumerEvent::Ended { id, .. } => ids.remove(id),
                    _ => None,
                };
                (event, id)
            });
            (known.collect::<Vec<_>>(), *rank)
        })?;
        events.into_iter().filter_map(|(event, id)| of_event(py, event, id, rank).transpose()).collect()
    }

    /// Whether P's offer is here, and its blocks mean the same.
    #[getter]
    fn is_paired(&self, py: Python<'_>) -> PyResult<bool> {
        self.reading(py, |reading| reading.consumer.is_paired())
    }

    /// Why the connection is over: an exception, or `None` where it is not.
    #[getter]
    fn over(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let over = self.reading(py, |reading| reading.consumer.over().map(Raised::raised))?;
        Ok(over.map(|why| why.into_value(py).into_any()))
    }

    /// Imports whose end has not come.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<usize> {
        self.reading(py, |reading| reading.consumer.in_flight())
    }

    /// Sums since it was made, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.reading(py, |reading| reading.consumer.counters())?;
        counted!(py,
            counters: [begun, landed, failed, bytes, zeroed, heartbeats, late_grants, unsent],
        )
    }

    /// Tells P that nothing more will be said, after the last import has ended. Poll until `is_left`, and then `close`: by then P has
    /// heard all, and a connection that is closed before may lose what was said last. Imports in flight go on as after a lost
    /// connection.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.reading(py, |reading| reading.consumer.close())
    }

    /// Whether the connection is over, and P has closed it where this side has said goodbye.
    #[getter]
    fn is_left(&self, py: Python<'_>) -> PyResult<bool> {
        self.reading(py, |reading| reading.consumer.is_left())
    }

    /// Closes the connection at once, and waits for nobody: what P has not heard is lost, unless `leave` and `is_left` came before.
    /// Reads in flight are given up, and may write until the agent is closed, and all producers and consumers that have it. Later calls
    /// are errors.
    ///
    /// Raises `LaunchError` inside of a function that `replay` calls.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reading = take(py, &self.0)?;
        py.detach(|| drop(reading));
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &*turn(py, &self.0)? {
            Some(Reading { consumer, .. }) => {
                let state = match consumer.over() {
                    Some(ConsumerError::Closed) if consumer.is_left() => "left",
                    Some(ConsumerError::Closed) => "leaving",
                    Some(_) => "lost",
                    None if consumer.is_paired() => "paired",
                    None => "not paired",
                };
                format!("Consumer({state}, {} imports in flight)", consumer.in_flight())
            }
            None => "Consumer(closed)".to_owned(),
        })
    }
}

impl Consumer {
    fn reading<T>(&self, py: Python<'_>, look: impl FnOnce(&mut Reading) -> T) -> PyResult<T> {
        // It may zero rows, and waits for the registry then.
        turn(py, &self.0)?.as_mut().map(look).ok_or_else(closed)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let reading = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        without_interpreter(|| drop(reading));
    }
}

/// The rank that imports land in, as a lifecycle knows it.
fn rank_of(offer: &Offer) -> PyResult<Rank> {
    let (rank, most) = (offer.offer.rank, Ranks::MOST);
    u8::try_from(rank).ok().filter(|rank| *rank < most).map(Rank::new).ok_or_else(|| {
        let text =
            format!("the offer is of rank {rank}, and a lifecycle has {most} ranks at most, from 0 on");
        of_kind::<TransportError>("Rank", text)
    })
}

fn of_event<'py>(
    py: Python<'py>,
    event: ConsumerEvent<u64>,
    known: Option<RequestId>,
    rank: Rank,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let dictionary = PyDict::new(py);
    match event {
        ConsumerEvent::Paired => dictionary.set_item("event", "paired")?,
        ConsumerEvent::Begun { id, export, reads, bytes, zeroed, exported } => {
            dictionary.set_item("event", "begun")?;
            dictionary.set_item("request", id)?;
            dictionary.set_item("export", told(py, &export)?)?;
            dictionary.set_item("reads", reads)?;
            dictionary.set_item("bytes", bytes)?;
            dictionary.set_item("zeroed", zeroed)?;
            dictionary.set_item("exported", told(py, &exported)?)?;
        }
        ConsumerEvent::Ended { id: request, end } => {
            dictionary.set_item("event", "ended")?;
            dictionary.set_item("request", request)?;
            let (landed, awaited, why, valid) = match &end {
                End::Landed { awaited, .. } => (true, Some(*awaited), None, PyDict::new(py)),
                End::Failed { why, valid } => {
                    let tokens = PyDict::new(py);
                    for (group, valid) in valid {
                        tokens.set_item(&**group, valid.get())?;
                    }
                    (false, None, Some(why.raised().into_value(py)), tokens)
                }
            };
            dictionary.set_item("landed", landed)?;
            dictionary.set_item("awaited", awaited)?;
            dictionary.set_item("why", why)?;
            dictionary.set_item("valid", valid)?;
            let of_lifecycle = known.and_then(|id| ConsumerEvent::Ended { id, end }.of_lifecycle(rank));
            dictionary.set_item("lifecycle", of_lifecycle.map(|event| told(py, &event)).transpose()?)?;
        }
        ConsumerEvent::Stuck { id } => {
            dictionary.set_item("event", "stuck")?;
            dictionary.set_item("request", id)?;
        }
        ConsumerEvent::Lost { why } => {
            dictionary.set_item("event", "lost")?;
            dictionary.set_item("why", why.raised().into_value(py))?;
        }
        _ => return Ok(None),
    }
    Ok(Some(dictionary))
}
