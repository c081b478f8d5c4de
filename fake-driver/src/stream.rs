//! Streams: work in order, which runs when somebody waits for it.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr::{copy, with_exposed_provenance, with_exposed_provenance_mut, write_bytes};

use pagelift_device::emulation::Shape;

use crate::capture::Graph;
use crate::kernels::Work;
use crate::machine::{Call, Pace, State};
use crate::words::{CAPTURE_IMPLICIT, ILLEGAL_ADDRESS, INVALID_HANDLE};

/// A stream's queue.
pub(crate) struct Stream {
    pub context: usize,
    /// The default stream: it and blocking ones wait for each other.
    pub default: bool,
    pub blocking: bool,
    /// The capture that it is part of, and the nodes that the next one comes after.
    pub capture: Option<(usize, Vec<usize>)>,
    queue: VecDeque<Operation>,
    /// How much was enqueued, and how much has run.
    issued: u64,
    done: u64,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    /// A copy of memory that is not pinned, whose bytes were taken when it was enqueued.
    Write {
        to: u64,
        bytes: Box<[u8]>,
    },
    Fill {
        to: u64,
        value: u8,
        bytes: usize,
    },
    Launch {
        work: Work,
        shape: Shape,
    },
    Graph(Graph),
    /// Waits for another stream to have done so much.
    Wait {
        stream: usize,
        done: u64,
    },
}

/// Where an event was recorded last.
#[derive(Clone, Debug)]
pub(crate) enum Recorded {
    Nowhere,
    In { stream: usize, done: u64 },
    Captured { capture: usize, after: Vec<usize> },
}

/// An event.
pub(crate) struct Event {
    pub context: usize,
    /// Whether times are taken of it.
    pub timed: bool,
    pub recorded: Recorded,
}

impl Stream {
    pub fn new(context: usize, default: bool, blocking: bool) -> Self {
        Self { context, default, blocking, capture: None, queue: VecDeque::new(), issued: 0, done: 0 }
    }

    pub const fn issued(&self) -> u64 {
        self.issued
    }
}

impl Call<'_> {
    /// The stream of a handle, which is in the thread's context. 0 and 1 are the default one.
    pub fn stream(&mut self, handle: usize) -> Result<usize, c_int> {
        let context = self.context()?;
        if handle <= 1 {
            return Ok(self.state.default_stream(context));
        }
        let stream = self.state.streams.get(&handle).ok_or(INVALID_HANDLE)?;
        if stream.context == context { Ok(handle) } else { Err(INVALID_HANDLE) }
    }

    /// Enqueues work, or adds it to the capture that the stream is part of.
    pub fn enqueue(&mut self, stream: usize, operation: Operation) -> Result<(), c_int> {
        let counted = usize::from(!matches!(operation, Operation::Wait { .. }));
        if self.record(stream, &operation)? {
            self.state.enqueued += counted;
            return Ok(());
        }
        let (context, default, blocking) = {
            let it = &self.state.streams[&stream];
            (it.context, it.default, it.blocking)
        };
        let others: Vec<usize> = self
            .state
            .streams
            .iter()
            .filter(|(_, other)| other.context == context && other.default != default)
            .filter(|(_, other)| (default && other.blocking) || (blocking && other.default))
            .map(|(handle, _)| *handle)
            .collect();
        self.no_implicit_capture(stream)?;
        for other in others {
            let done = self.state.streams[&other].issued;
            self.state.push(stream, Operation::Wait { stream: other, done });
        }
        self.state.push(stream, operation);
        self.state.enqueued += counted;
        match self.state.pace {
            Pace::Late => {}
            Pace::Early => self.state.drain(stream),
            Pace::Random => {
                let streams: Vec<usize> = self.state.streams.keys().copied().collect();
                let lucky = streams[self.state.below(streams.len())];
                let it = &self.state.streams[&lucky];
                let (done, waiting) = (it.done, it.queue.len());
                let more = self.state.below(waiting + 1) as u64;
                self.state.run_until(lucky, done + more);
            }
        }
        Ok(())
    }

    /// Refuses the default stream while a stream that it waits for is captured.
    pub fn no_implicit_capture(&self, stream: usize) -> Result<(), c_int> {
        let it = &self.state.streams[&stream];
        let waited_for = |other: &&Stream| other.context == it.context && other.blocking && !other.default;
        let captured = self.state.streams.values().filter(waited_for).any(|other| other.capture.is_some());
        if it.default && captured { Err(CAPTURE_IMPLICIT) } else { Ok(()) }
    }

    /// Waits for a stream.
    pub fn wait(&mut self, stream: usize) -> Result<(), c_int> {
        self.state.drain(stream);
        let context = self.state.streams[&stream].context;
        self.alive(context).map(drop)
    }
}

impl State {
    /// The default stream of a context.
    pub fn default_stream(&mut self, context: usize) -> usize {
        // No handle that was given out is odd.
        let handle = context | 1;
        self.streams.entry(handle).or_insert_with(|| Stream::new(context, true, false));
        handle
    }

    pub fn push(&mut self, stream: usize, operation: Operation) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.queue.push_back(operation);
            stream.issued += 1;
        }
    }

    /// Whether a stream has done so much.
    pub fn has_done(&self, stream: usize, done: u64) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.done >= done)
    }

    /// Runs everything on a stream.
    pub fn drain(&mut self, stream: usize) {
        let issued = self.streams.get(&stream).map_or(0, Stream::issued);
        self.run_until(stream, issued);
    }

    /// Runs what is on a stream until so much is done.
    pub fn run_until(&mut self, stream: usize, done: u64) {
        loop {
            let Some(it) = self.streams.get_mut(&stream).filter(|it| it.done < done) else { return };
            let context = it.context;
            let Some(operation) = it.queue.pop_front() else { return };
            if let Operation::Wait { stream: other, done } = operation {
                self.run_until(other, done);
            } else if !self.lost.contains_key(&context)
                && let Err(code) = self.execute(context, &operation)
            {
                self.lost.insert(context, code);
            }
            if let Some(it) = self.streams.get_mut(&stream) {
                it.done += 1;
            }
        }
    }

    /// Does one piece of work, where all that it touches is there.
    fn execute(&mut self, context: usize, operation: &Operation) -> Result<(), c_int> {
        let there = |state: &Self, address: u64, bytes: usize| {
            if state.memory.holds(address, bytes, context) { Ok(()) } else { Err(ILLEGAL_ADDRESS) }
        };
        match operation {
            Operation::Copy { to, from, bytes } => {
                there(self, *to, *bytes)?;
                there(self, *from, *bytes)?;
                // SAFETY: both are in memory that is there, and whose users keep to the order of streams.
                unsafe {
                    copy(
                        with_exposed_provenance::<u8>(*from as usize),
                        with_exposed_provenance_mut::<u8>(*to as usize),
                        *bytes,
                    );
                }
            }
            Operation::Write { to, bytes } => {
                there(self, *to, bytes.len())?;
                // SAFETY: as above; the box is ours.
                unsafe { copy(bytes.as_ptr(), with_exposed_provenance_mut(*to as usize), bytes.len()) };
            }
            Operation::Fill { to, value, bytes } => {
                there(self, *to, *bytes)?;
                // SAFETY: as above.
                unsafe { write_bytes(with_exposed_provenance_mut::<u8>(*to as usize), *value, *bytes) };
            }
            Operation::Launch { work, shape } => {
                for address in work.addresses() {
                    there(self, address, 8)?;
                }
                let seed = self.below(usize::MAX) as u64;
                // SAFETY: (1) whoever launched it promised that; what is fixed at the launch is there.
                unsafe { work.run(*shape, seed) };
            }
            Operation::Graph(graph) => {
                for operation in graph.in_some_order(self) {
                    self.execute(context, &operation)?;
                }
            }
            Operation::Wait { .. } => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Operation, Stream};
    use crate::machine::{Machine, Pace, call};

    /// How far eight streams had come after each of some calls.
    fn schedule(seed: u64) -> Vec<Vec<u64>> {
        let machine = Machine::new(1);
        machine.seed(seed);
        machine.pace(Pace::Random);
        let mut seen = Vec::new();
        // Under the name of a call that needs no other before it.
        let code = call("cuInit", |call| {
            let handles = || (1..=8).map(|number| number * 0x10);
            call.state.streams.extend(handles().map(|handle| (handle, Stream::new(0, false, false))));
            for handle in handles().cycle().take(64) {
                call.enqueue(handle, Operation::Wait { stream: handle, done: 0 })?;
                seen.push(call.state.streams.values().map(|stream| stream.done).collect());
            }
            Ok(())
        });
        assert_eq!(code, 0);
        seen
    }

    #[test]
    fn a_seed_gives_one_schedule() {
        assert_eq!(schedule(17), schedule(17));
        assert_ne!(schedule(17), schedule(18));
    }
}
