//! What calls answer.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagelift::error as rust;
use pagelift_bindings::error::{Trouble, variant};
use pagelift_bindings::{Error, Mismatch};

use crate::foreign::{Out, TextOut};

/// What a call answers. Numbers stay as they are; new ones may come. Where a call does not answer PAGELIFT_OK it has changed
/// nothing that its description does not name, and written nothing to what it was given, but for how much room it takes
/// where there is too little. `pagelift_last_error` says more.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,

    /// A pointer is null that may not be.
    NullPointer = 1,
    /// A pointer is not aligned as its type wants.
    Misaligned = 2,
    /// `size` of a struct is none that this library knows: set it to `sizeof` of the struct, with the library's own header.
    WrongSize = 3,
    /// A number is none of those that it may be.
    BadValue = 4,
    /// Text is not UTF-8.
    BadText = 5,

    /// A handle, or a key, that this library never gave, or 0.
    InvalidHandle = 20,
    /// A handle of something else.
    WrongKind = 21,
    /// A handle of what was freed.
    StaleHandle = 22,
    /// Another thread is in a call with it: ask again later. Nothing waits here.
    Busy = 23,
    /// It cannot be freed or released before what uses it.
    InUse = 24,
    /// There are no more handles: 1,048,512 objects of a kind at one time, or 16,777,216 keys of a geometry.
    TooManyHandles = 25,
    /// A plan, or a launcher, of another type than the call is for; or a key of another kind or direction.
    WrongPlan = 26,

    /// A layout that cannot be.
    Layout = 100,
    /// Prompt arithmetic that cannot be.
    Span = 200,
    /// Pools, sides or groups that do not fit together.
    Geometry = 300,
    /// A plan that may not be. The plan is as it was.
    Plan = 400,
    /// More than a plan has room for. The plan is as it was.
    Capacity = 401,
    /// An event that a lifecycle does not take.
    Lifecycle = 500,
    /// Memory that is not registered, was released, or overlaps other memory.
    Registry = 600,
    /// There is no memory for it.
    OutOfMemory = 601,
    /// A launcher that cannot take a plan. Nothing was enqueued.
    Launch = 700,
    /// Every staging slot holds a plan that may still run: launch, or wait.
    RingFull = 701,
    /// A backend that cannot run.
    Backend = 800,
    /// There is no NVIDIA driver, or one that is too old.
    NoDriver = 801,
    /// A call that is not allowed while a stream is being captured, or that needs a capture where there is none.
    Capture = 802,
    /// The driver refused a call.
    Driver = 803,
    /// A fault took the GPU's context and all memory of it: restart the process.
    ContextLost = 804,

    /// A mistake of this library's. What the call was made on can only be freed.
    Internal = 900,
}

/// Why a call was refused. Words are made of it when somebody asks for them: what a step may often meet, such as a full ring or
/// something in use, allocates nothing.
#[derive(Debug)]
pub struct Failure {
    status: Status,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// What this interface says of its own.
    Said(Cow<'static, str>),
    /// Another thread is in a call with one of these.
    InUse(&'static str),
    /// What pagelift says.
    Error(Error),
}

/// What a call comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// One of this interface's own.
    pub fn new(status: Status, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: Why::Said(text.into()) }
    }

    /// That another thread is in a call with something, such as `a plan`.
    pub const fn busy(what: &'static str) -> Self {
        Self { status: Status::Busy, why: Why::InUse(what) }
    }

    /// Its kind, in one word.
    fn kind(&self) -> String {
        match &self.why {
            Why::Said(_) | Why::InUse(_) => variant(&self.status),
            Why::Error(error) => variant(told_apart(error).1),
        }
    }

    /// What it says.
    fn text(&self) -> String {
        match &self.why {
            Why::Said(text) => text.to_string(),
            Why::InUse(what) => {
                format!("another thread is in a call with this {}", what.trim_start_matches("a "))
            }
            Why::Error(error) => error.to_string(),
        }
    }

    /// What the call answers.
    #[cfg(test)]
    pub const fn status(&self) -> Status {
        self.status
    }
}

/// A value that is none of those expected.
pub fn bad_value(what: &str, found: impl std::fmt::Display, expected: &str) -> Failure {
    Failure::new(Status::BadValue, format!("`{what}` is {found}; expected {expected}"))
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { status: told_apart(&error).0, why: Why::Error(error) }
    }
}

/// The status of an error, and what its kind is a variant of.
fn told_apart(error: &Error) -> (Status, &dyn Debug) {
    use pagelift::Error as Domain;
    match error {
        Error::Mismatch(inner) => (of_mismatch(*inner), inner),
        Error::Library(error) => match error {
            Domain::Layout(inner) => (Status::Layout, inner),
            Domain::Span(inner) => (Status::Span, inner),
            Domain::Geometry(inner) => (Status::Geometry, inner),
            Domain::Plan(inner) => (of_plan(inner), inner),
            Domain::Lifecycle(inner) => (of_lifecycle(inner), inner),
            Domain::Memory(inner) => (of_memory(inner), inner),
            Domain::Launch(inner) => (of_launch(inner), inner),
            Domain::Backend(inner) => (of_backend(inner), inner),
            other => (Status::Internal, other),
        },
        other => (Status::Internal, other),
    }
}

fn of_mismatch(mismatch: Mismatch) -> Status {
    match mismatch {
        Mismatch::Lift { .. } | Mismatch::Each { .. } => Status::BadValue,
        Mismatch::NoStreams => Status::Backend,
        _ => Status::WrongPlan,
    }
}

fn of_plan(error: &rust::PlanError) -> Status {
    match error {
        rust::PlanError::Capacity { .. } => Status::Capacity,
        rust::PlanError::OutOfMemory { .. } => Status::OutOfMemory,
        _ => Status::Plan,
    }
}

fn of_lifecycle(error: &rust::LifecycleError) -> Status {
    match error {
        rust::LifecycleError::Memory(error) => of_plan(error),
        _ => Status::Lifecycle,
    }
}

fn of_memory(error: &rust::MemoryError) -> Status {
    match error {
        rust::MemoryError::OutOfMemory { .. } => Status::OutOfMemory,
        rust::MemoryError::Null => Status::NullPointer,
        _ => Status::Registry,
    }
}

fn of_launch(error: &rust::LaunchError) -> Status {
    match error {
        rust::LaunchError::RingFull { .. } => Status::RingFull,
        _ => Status::Launch,
    }
}

fn of_backend(error: &rust::BackendError) -> Status {
    match Trouble::of(error) {
        Trouble::NoDriver => Status::NoDriver,
        Trouble::Capture => Status::Capture,
        Trouble::Driver => Status::Driver,
        Trouble::ContextLost => Status::ContextLost,
        Trouble::Other => Status::Backend,
    }
}

thread_local! {
    /// The last failure of this thread.
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Does a call's work and answers: no panic leaves it, and a failure is kept for `pagelift_last_error`.
pub fn answer(work: impl FnOnce() -> Outcome) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Status::Internal, said(panic.as_ref())),
    };
    let status = failure.status;
    // A thread that is ending has no room for it any more.
    let _ = LAST.try_with(|last| last.replace(Some(failure)));
    status
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let words =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a mistake of pagelift's: {}", words.unwrap_or("it panicked"))
}

/// Tells what the last failed call of this thread said, in `buffer`: at most `room` bytes, the 0 at the end among them,
/// so cut where that is too short. `needed` is set to the bytes that it takes, the 0 among them; it may be null.
/// `buffer` may be null where `room` is 0. A call that succeeds leaves the message; before the first failure it is
/// empty.
///
/// Errors: PAGELIFT_NULL_POINTER, PAGELIFT_MISALIGNED; the message stays as it was. May be called at any time, also in a
/// capture.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_last_error(buffer: Out<c_char>, room: usize, needed: Out<usize>) -> Status {
    tell(buffer, room, needed, Failure::text)
}

/// Tells the kind of the last failure of this thread in one word, such as "Unregistered": the variant of the Rust error,
/// which Python has as `kind`. Otherwise as `pagelift_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_last_error_kind(buffer: Out<c_char>, room: usize, needed: Out<usize>) -> Status {
    tell(buffer, room, needed, Failure::kind)
}

fn tell(
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
    what: impl FnOnce(&Failure) -> String,
) -> Status {
    let text = LAST.try_with(|last| last.borrow().as_ref().map(what)).ok().flatten();
    let told = TextOut::new(buffer, room, needed).and_then(|out| out.put(&text.unwrap_or_default()));
    told.map_or_else(|failure| failure.status, |()| Status::Ok)
}

/// The name of a status, such as "PAGELIFT_BUSY": text that lives as long as the library. Of a number that is none, "?".
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_status_name(status: i32) -> *const c_char {
    let name = NAMES.iter().find(|(known, _)| *known as i32 == status).map_or(c"?", |(_, name)| *name);
    name.as_ptr()
}

macro_rules! names {
    ($($status:ident => $name:literal),+ $(,)?) => {
        /// Each status with its name.
        const NAMES: &[(Status, &std::ffi::CStr)] = &[$((Status::$status, $name)),+];

        /// A status without a name does not compile.
        const _: fn(Status) = |status| match status {
            $(Status::$status => (),)+
        };
    };
}

names! {
    Ok => c"PAGELIFT_OK",
    NullPointer => c"PAGELIFT_NULL_POINTER",
    Misaligned => c"PAGELIFT_MISALIGNED",
    WrongSize => c"PAGELIFT_WRONG_SIZE",
    BadValue => c"PAGELIFT_BAD_VALUE",
    BadText => c"PAGELIFT_BAD_TEXT",
    InvalidHandle => c"PAGELIFT_INVALID_HANDLE",
    WrongKind => c"PAGELIFT_WRONG_KIND",
    StaleHandle => c"PAGELIFT_STALE_HANDLE",
    Busy => c"PAGELIFT_BUSY",
    InUse => c"PAGELIFT_IN_USE",
    TooManyHandles => c"PAGELIFT_TOO_MANY_HANDLES",
    WrongPlan => c"PAGELIFT_WRONG_PLAN",
    Layout => c"PAGELIFT_LAYOUT",
    Span => c"PAGELIFT_SPAN",
    Geometry => c"PAGELIFT_GEOMETRY",
    Plan => c"PAGELIFT_PLAN",
    Capacity => c"PAGELIFT_CAPACITY",
    Lifecycle => c"PAGELIFT_LIFECYCLE",
    Registry => c"PAGELIFT_REGISTRY",
    OutOfMemory => c"PAGELIFT_OUT_OF_MEMORY",
    Launch => c"PAGELIFT_LAUNCH",
    RingFull => c"PAGELIFT_RING_FULL",
    Backend => c"PAGELIFT_BACKEND",
    NoDriver => c"PAGELIFT_NO_DRIVER",
    Capture => c"PAGELIFT_CAPTURE",
    Driver => c"PAGELIFT_DRIVER",
    ContextLost => c"PAGELIFT_CONTEXT_LOST",
    Internal => c"PAGELIFT_INTERNAL",
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "that is what is tested")]

    use super::*;

    #[test]
    fn a_panic_becomes_an_answer() {
        assert_eq!(answer(|| panic!("for the test")), Status::Internal);
        let text = LAST.with(|last| last.borrow().as_ref().map(Failure::text));
        assert_eq!(text.as_deref(), Some("a mistake of pagelift's: for the test"));
    }

    #[test]
    fn errors_keep_their_domain_and_their_kind() {
        let failure = Failure::from(rust::MemoryError::Released);
        assert_eq!((failure.status, &*failure.kind()), (Status::Registry, "Released"));
        let failure = Failure::from(rust::LaunchError::NoSlots);
        assert_eq!((failure.status, &*failure.kind()), (Status::Launch, "NoSlots"));
    }
}
