//! Streams and events.

use std::ffi::{c_int, c_uint};

use super::{Handle, give, store};
use crate::capture::RELAXED;
use crate::stream::{Event, Recorded, Stream};
use crate::words::{CAPTURED_EVENT, INVALID_HANDLE, INVALID_VALUE, NOT_READY};

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;

api! {
    "cuStreamCreate" stream_create(call, stream: *mut Handle, flags: c_uint) {
        let (context, handle) = (call.context()?, call.state.handle());
        call.state.streams.insert(handle, Stream::new(context, false, flags & 1 == 0));
        give(stream, handle)
    }
    "cuStreamDestroy_v2" stream_destroy(call, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        call.state.drain(stream);
        call.state.streams.remove(&stream).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuStreamSynchronize" stream_synchronize(call, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        call.not_captured(stream)?;
        call.no_implicit_capture(stream)?;
        call.wait(stream)
    }
    "cuStreamQuery" stream_query(call, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        call.unsafe_call()?;
        call.not_captured(stream)?;
        call.no_implicit_capture(stream)?;
        let issued = call.state.streams[&stream].issued();
        if call.state.has_done(stream, issued) { call.context().map(drop) } else { Err(NOT_READY) }
    }
    "cuStreamIsCapturing" stream_capture_state(call, stream: Handle, state: *mut c_int) {
        let stream = call.stream(stream.addr())?;
        call.no_implicit_capture(stream)?;
        store(state, call.capture_state(stream))
    }
    "cuStreamWaitEvent" stream_wait(call, stream: Handle, event: Handle, _flags: c_uint) {
        let stream = call.stream(stream.addr())?;
        let recorded = call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded.clone();
        call.wait_for(stream, &recorded)
    }
    "cuThreadExchangeStreamCaptureMode" exchange_capture_mode(call, mode: *mut c_int) {
        let wanted = mode.read();
        if !(0..=RELAXED).contains(&wanted) {
            return Err(INVALID_VALUE);
        }
        store(mode, std::mem::replace(&mut call.thread.mode, wanted))
    }

    "cuEventCreate" event_create(call, event: *mut Handle, flags: c_uint) {
        let (context, handle) = (call.context()?, call.state.handle());
        let timed = flags & DISABLE_TIMING == 0;
        call.state.events.insert(handle, Event { context, timed, recorded: Recorded::Nowhere });
        give(event, handle)
    }
    "cuEventDestroy_v2" event_destroy(call, event: Handle) {
        call.state.events.remove(&event.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
    "cuEventRecord" event_record(call, event: Handle, stream: Handle) {
        let stream = call.stream(stream.addr())?;
        let it = &call.state.streams[&stream];
        let recorded = match &it.capture {
            Some((capture, after)) => Recorded::Captured { capture: *capture, after: after.clone() },
            None => Recorded::In { stream, done: it.issued() },
        };
        let context = it.context;
        let event = call.state.events.get_mut(&event.addr()).filter(|event| event.context == context);
        event.ok_or(INVALID_HANDLE)?.recorded = recorded;
        Ok(())
    }
    "cuEventQuery" event_query(call, event: Handle) {
        call.unsafe_call()?;
        match call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded {
            Recorded::Nowhere => Ok(()),
            Recorded::In { stream, done } if call.state.has_done(stream, done) => call.context().map(drop),
            Recorded::In { .. } => Err(NOT_READY),
            Recorded::Captured { .. } => Err(CAPTURED_EVENT),
        }
    }
    "cuEventSynchronize" event_synchronize(call, event: Handle) {
        call.unsafe_call()?;
        match call.state.events.get(&event.addr()).ok_or(INVALID_HANDLE)?.recorded {
            Recorded::Nowhere => Ok(()),
            Recorded::In { stream, done } => {
                call.state.run_until(stream, done);
                call.context().map(drop)
            }
            Recorded::Captured { .. } => Err(CAPTURED_EVENT),
        }
    }
    "cuEventElapsedTime" event_elapsed(call, milliseconds: *mut f32, from: Handle, to: Handle) {
        for event in [from, to] {
            let event = call.state.events.get(&event.addr()).filter(|event| event.timed).ok_or(INVALID_HANDLE)?;
            match event.recorded {
                Recorded::Nowhere => return Err(INVALID_HANDLE),
                Recorded::In { stream, done } if call.state.has_done(stream, done) => {}
                Recorded::In { .. } => return Err(NOT_READY),
                Recorded::Captured { .. } => return Err(CAPTURED_EVENT),
            }
        }
        // Nothing here takes time.
        store(milliseconds, 0.0)
    }
}
