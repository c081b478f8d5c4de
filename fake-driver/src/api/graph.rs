//! Captures, and the graphs that come of them.

use std::ffi::c_int;

use super::{Handle, give};
use crate::stream::Operation;
use crate::words::{ILLEGAL_STATE, INVALID_HANDLE};

api! {
    "cuStreamBeginCapture_v2" begin_capture(call, stream: Handle, mode: c_int) {
        let stream = call.stream(stream.addr())?;
        call.begin_capture(stream, mode)
    }
    "cuStreamEndCapture" end_capture(call, stream: Handle, graph: *mut Handle) {
        let (context, stream) = (call.context()?, call.stream(stream.addr())?);
        give(graph, 0)?;
        let ended = call.end_capture(stream)?;
        let handle = call.state.handle();
        call.state.graphs.insert(handle, (context, ended));
        give(graph, handle)
    }
    "cuGraphInstantiateWithFlags" instantiate(call, executable: *mut Handle, graph: Handle, _flags: u64) {
        call.unsafe_call()?;
        let made = call.state.graphs.get(&graph.addr()).ok_or(INVALID_HANDLE)?.clone();
        let handle = call.state.handle();
        call.state.executables.insert(handle, made);
        give(executable, handle)
    }
    "cuGraphLaunch" graph_launch(call, executable: Handle, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        let (context, graph) = call.state.executables.get(&executable.addr()).ok_or(INVALID_HANDLE)?.clone();
        if call.state.streams[&stream].context != context {
            return Err(ILLEGAL_STATE);
        }
        call.enqueue(stream, Operation::Graph(graph))
    }
    "cuGraphExecDestroy" executable_destroy(call, executable: Handle) {
        call.state.executables.remove(&executable.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuGraphDestroy" graph_destroy(call, graph: Handle) {
        call.state.graphs.remove(&graph.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
}
