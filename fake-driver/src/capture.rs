//! Captures: what is enqueued on a stream goes into a graph. The rules are those of the driver's manual.

use std::ffi::c_int;
use std::thread::ThreadId;

use crate::machine::{Call, State};
use crate::stream::{Operation, Recorded};
use crate::words::{
    CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNJOINED, CAPTURE_UNMATCHED,
    CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD, ILLEGAL_STATE, INVALID_VALUE,
};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`, `…_THREAD_LOCAL`, `…_RELAXED`.
pub(crate) const GLOBAL: c_int = 0;
pub(crate) const THREAD_LOCAL: c_int = 1;
pub(crate) const RELAXED: c_int = 2;

/// Recorded work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    operation: Operation,
    /// The nodes that it comes after.
    after: Vec<usize>,
}

/// A capture that lasts.
pub(crate) struct Capture {
    /// The stream that it began on.
    stream: usize,
    mode: c_int,
    thread: ThreadId,
    graph: Graph,
    /// A forbidden call has spoiled it.
    invalid: bool,
}

impl Graph {
    /// Its work in an order in which each node comes after those that it has to.
    pub fn in_some_order(&self, state: &mut State) -> Vec<Operation> {
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let ready: Vec<usize> = (0..left.len())
                .filter(|at| !self.nodes[left[*at]].after.iter().any(|node| left.contains(node)))
                .collect();
            let node = left.remove(ready[state.below(ready.len())]);
            order.push(self.nodes[node].operation.clone());
        }
        order
    }
}

impl Call<'_> {
    /// Adds work to the capture that a stream is part of; `false` where it is part of none.
    pub fn record(&mut self, stream: usize, operation: &Operation) -> Result<bool, c_int> {
        let Some((capture, after)) = self.state.streams[&stream].capture.clone() else { return Ok(false) };
        let Some(it) = self.state.captures.get_mut(&capture) else { return Err(CAPTURE_INVALIDATED) };
        if it.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        if matches!(operation, Operation::Graph(_)) {
            it.invalid = true;
            return Err(CAPTURE_UNSUPPORTED);
        }
        it.graph.nodes.push(Node { operation: operation.clone(), after });
        let last = it.graph.nodes.len() - 1;
        if let Some(stream) = self.state.streams.get_mut(&stream) {
            stream.capture = Some((capture, vec![last]));
        }
        Ok(true)
    }

    /// Refuses a call that is not enqueued on a stream, and so would be missing in a replay, while a capture forbids such.
    pub fn unsafe_call(&mut self) -> Result<(), c_int> {
        let (mode, thread) = (self.thread.mode, self.id);
        let own = |capture: &Capture| capture.thread == thread && capture.mode != RELAXED;
        let forbids = |_, capture: &Capture| match mode {
            GLOBAL => own(capture) || capture.mode == GLOBAL,
            THREAD_LOCAL => own(capture),
            _ => false,
        };
        self.spoil(forbids)
    }

    /// Refuses to wait for a whole context while anything in it is captured.
    pub fn no_capture_in(&mut self, context: usize) -> Result<(), c_int> {
        let inside: Vec<usize> = self
            .state
            .streams
            .values()
            .filter(|stream| stream.context == context)
            .filter_map(|stream| Some(stream.capture.as_ref()?.0))
            .collect();
        self.spoil(|handle, _| inside.contains(&handle))
    }

    /// Refuses to wait for a stream that is captured.
    pub fn not_captured(&mut self, stream: usize) -> Result<(), c_int> {
        let Some((capture, _)) = &self.state.streams[&stream].capture else { return Ok(()) };
        let capture = *capture;
        self.spoil(|handle, _| handle == capture)
    }

    /// Makes those captures invalid, and refuses what would break them, if there are any.
    fn spoil(&mut self, forbids: impl Fn(usize, &Capture) -> bool) -> Result<(), c_int> {
        let mut found = false;
        let broken = self.state.captures.iter_mut().filter(|(handle, capture)| forbids(**handle, capture));
        for (_, capture) in broken {
            (capture.invalid, found) = (true, true);
        }
        if found { Err(CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    pub fn begin_capture(&mut self, stream: usize, mode: c_int) -> Result<(), c_int> {
        if !(GLOBAL..=RELAXED).contains(&mode) {
            return Err(INVALID_VALUE);
        }
        let handle = self.state.handle();
        let Some(it) = self.state.streams.get_mut(&stream) else { return Err(INVALID_VALUE) };
        if it.default {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if it.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        it.capture = Some((handle, Vec::new()));
        let capture = Capture { stream, mode, thread: self.id, graph: Graph::default(), invalid: false };
        self.state.captures.insert(handle, capture);
        Ok(())
    }

    /// Whether a stream is captured (1), or its capture is spoiled (2).
    pub fn capture_state(&self, stream: usize) -> c_int {
        let Some((capture, _)) = &self.state.streams[&stream].capture else { return 0 };
        match self.state.captures.get(capture) {
            Some(capture) if !capture.invalid => 1,
            _ => 2,
        }
    }

    pub fn end_capture(&mut self, stream: usize) -> Result<Graph, c_int> {
        let Some((handle, _)) = self.state.streams[&stream].capture.clone() else {
            return Err(ILLEGAL_STATE);
        };
        let capture = self.state.captures.get(&handle).ok_or(CAPTURE_INVALIDATED)?;
        if capture.stream != stream {
            return Err(CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != self.id {
            return Err(CAPTURE_WRONG_THREAD);
        }
        // Branches are joined where the origin's last nodes come after all others.
        let mut reached = vec![false; capture.graph.nodes.len()];
        let mut next = self.state.streams[&stream].capture.clone().unwrap_or_default().1;
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                next.extend(&capture.graph.nodes[node].after);
            }
        }
        let joined = reached.iter().all(|reached| *reached);
        let invalid = capture.invalid;
        let capture = self.state.captures.remove(&handle);
        for stream in self.state.streams.values_mut() {
            if stream.capture.as_ref().is_some_and(|(capture, _)| *capture == handle) {
                stream.capture = None;
            }
        }
        match capture {
            _ if invalid => Err(CAPTURE_INVALIDATED),
            _ if !joined => Err(CAPTURE_UNJOINED),
            Some(capture) => Ok(capture.graph),
            None => Err(CAPTURE_INVALIDATED),
        }
    }

    /// Lets a stream wait for an event: in a capture an edge of the graph, which may bring the stream into it.
    pub fn wait_for(&mut self, stream: usize, recorded: &Recorded) -> Result<(), c_int> {
        let own = self.state.streams[&stream].capture.clone();
        match (recorded, own) {
            (Recorded::Nowhere, _) => Ok(()),
            (Recorded::In { stream: other, done }, None) => {
                self.enqueue(stream, Operation::Wait { stream: *other, done: *done })
            }
            (Recorded::In { .. }, Some((capture, _))) => {
                self.spoil_one(capture);
                Err(CAPTURE_ISOLATION)
            }
            (Recorded::Captured { capture, after }, own) => {
                if !self.state.captures.contains_key(capture) {
                    if let Some((own, _)) = own {
                        self.spoil_one(own);
                    }
                    return Err(CAPTURE_ISOLATION);
                }
                let mut nodes = match own {
                    Some((own, nodes)) if own == *capture => nodes,
                    Some((own, _)) => {
                        self.spoil_one(own);
                        self.spoil_one(*capture);
                        return Err(CAPTURE_MERGE);
                    }
                    None => Vec::new(),
                };
                nodes.extend(after);
                if let Some(stream) = self.state.streams.get_mut(&stream) {
                    stream.capture = Some((*capture, nodes));
                }
                Ok(())
            }
        }
    }

    fn spoil_one(&mut self, capture: usize) {
        if let Some(capture) = self.state.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }
}
