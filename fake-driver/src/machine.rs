//! A computer with some GPUs, and what each thread sees of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::api;
use crate::capture::{Capture, Graph};
use crate::kernels::Entry;
use crate::memory::Memory;
use crate::stream::{Event, Stream};
use crate::words::{INVALID_CONTEXT, INVALID_HANDLE, LAUNCH_FAILED, NOT_INITIALIZED};

/// How fast work runs that nobody waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// It does not.
    #[default]
    Late,
    /// At once.
    Early,
    /// Some of it, now and then.
    Random,
}

/// What was made and not unmade. Modules and functions are not counted: they go with their context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Times that primary contexts were retained.
    pub contexts: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Graphs.
    pub graphs: usize,
    /// Executable graphs.
    pub executables: usize,
    /// Allocations on devices.
    pub device: usize,
    /// Allocations on the host.
    pub host: usize,
    /// Registrations of somebody else's memory.
    pub registered: usize,
}

/// A computer with some GPUs.
#[derive(Clone)]
pub struct Machine(Arc<Mutex<State>>);

/// One GPU.
pub(crate) struct Device {
    pub retained: usize,
    /// Its primary context, while that is retained.
    pub context: usize,
}

/// A loaded module.
pub(crate) struct Module {
    pub context: usize,
    pub image: String,
}

/// A function of a module.
pub(crate) struct Function {
    pub context: usize,
    pub entry: Entry,
    /// The most dynamic shared memory that a launch may ask for.
    pub shared: c_int,
}

/// A call that is to fail.
#[derive(Clone, Copy)]
struct Failure {
    /// Calls that are still to be made before it.
    left: usize,
    code: c_int,
    /// Whether it does first what it is asked for.
    late: bool,
}

/// Everything that the machine knows. Its maps are in the order of their keys, so that a seed gives one schedule.
pub(crate) struct State {
    pub initialised: bool,
    pub devices: Vec<Device>,
    /// Contexts that a fault has taken, and the fault.
    pub lost: BTreeMap<usize, c_int>,
    pub memory: Memory,
    pub modules: BTreeMap<usize, Module>,
    pub functions: BTreeMap<usize, Function>,
    pub streams: BTreeMap<usize, Stream>,
    pub events: BTreeMap<usize, Event>,
    pub captures: BTreeMap<usize, Capture>,
    pub graphs: BTreeMap<usize, (usize, Graph)>,
    pub executables: BTreeMap<usize, (usize, Graph)>,
    pub pace: Pace,
    /// Copies, fills, launches and replays that were enqueued, or recorded.
    pub enqueued: usize,
    log: Vec<&'static str>,
    lacks: Vec<&'static str>,
    fails: Vec<Failure>,
    handles: usize,
    random: u64,
}

/// What a thread is to a machine.
pub(crate) struct Thread {
    machine: Option<Machine>,
    /// Contexts that were pushed.
    pub contexts: Vec<usize>,
    /// Its mode of capture.
    pub mode: c_int,
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static THREAD: RefCell<Thread> =
        const { RefCell::new(Thread { machine: None, contexts: Vec::new(), mode: 0 }) };
}

impl Machine {
    /// A machine with some GPUs, which the calling thread enters.
    #[must_use]
    pub fn new(devices: usize) -> Self {
        let machine = Self::with(devices);
        machine.enter();
        machine
    }

    /// A machine that nobody has entered.
    fn with(devices: usize) -> Self {
        let devices = (0..devices).map(|_| Device { retained: 0, context: 0 }).collect();
        let state = State {
            initialised: false,
            devices,
            lost: BTreeMap::new(),
            memory: Memory::default(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            pace: Pace::default(),
            enqueued: 0,
            log: Vec::new(),
            lacks: Vec::new(),
            fails: Vec::new(),
            handles: 0x1000,
            random: 0x9E37_79B9_7F4A_7C15,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The machine that a thread sees which has entered none: one for the process, where this is the driver's library.
    pub(crate) fn of_process() -> Option<Self> {
        static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::with(1));
        cfg!(feature = "library").then(|| MACHINE.clone())
    }

    /// Lets the calling thread see this machine, with no context current.
    pub fn enter(&self) {
        let entered = Thread { machine: Some(self.clone()), contexts: Vec::new(), mode: 0 };
        THREAD.with_borrow_mut(|thread| *thread = entered);
    }

    /// A call by its name in the driver's library.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        api::symbol(name).filter(|_| !self.state().lacks.contains(&name))
    }

    /// Takes a call out of the library.
    pub fn lack(&self, name: &'static str) {
        self.state().lacks.push(name);
    }

    /// Lets the call after the next `after` ones fail with `code`, beside others that are to. It does nothing then.
    pub fn fail(&self, after: usize, code: c_int) {
        self.state().fails.push(Failure { left: after, code, late: false });
    }

    /// Lets the call after the next `after` ones say `code` when it has done what it was asked for, beside others that are to fail.
    pub fn fail_late(&self, after: usize, code: c_int) {
        self.state().fails.push(Failure { left: after, code, late: true });
    }

    /// Whether a failure that was asked for is still to come; it is called off.
    pub fn spare(&self) -> bool {
        !std::mem::take(&mut self.state().fails).is_empty()
    }

    /// The calls that were made since this was last asked, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state().log)
    }

    /// Copies, fills, launches and replays that were enqueued on streams, or recorded into graphs, so far.
    #[must_use]
    pub fn enqueued(&self) -> usize {
        self.state().enqueued
    }

    /// Sets how fast work runs that nobody waits for.
    pub fn pace(&self, pace: Pace) {
        self.state().pace = pace;
    }

    /// Decides what is left to chance.
    pub fn seed(&self, seed: u64) {
        // xorshift never leaves 0.
        self.state().random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    }

    /// Runs everything that was enqueued.
    pub fn run(&self) {
        let mut state = self.state();
        let streams: Vec<usize> = state.streams.keys().copied().collect();
        for stream in streams {
            state.drain(stream);
        }
    }

    /// What was made and not unmade.
    #[must_use]
    pub fn live(&self) -> Live {
        let state = self.state();
        let memory = state.memory.count();
        Live {
            contexts: state.devices.iter().map(|device| device.retained).sum(),
            streams: state.streams.values().filter(|stream| !stream.default).count(),
            events: state.events.len(),
            graphs: state.graphs.len(),
            executables: state.executables.len(),
            device: memory.device,
            host: memory.host,
            registered: memory.registered,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A handle that nothing else has.
    pub fn handle(&mut self) -> usize {
        self.handles += 0x10;
        self.handles
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % bound.max(1) as u64) as usize
    }
}

/// One call: the machine, and the thread that makes it.
pub(crate) struct Call<'a> {
    pub state: &'a mut State,
    pub thread: &'a mut Thread,
    pub id: ThreadId,
}

impl Call<'_> {
    /// The thread's context, which no fault has taken.
    pub fn context(&self) -> Result<usize, c_int> {
        let context = *self.thread.contexts.last().ok_or(INVALID_CONTEXT)?;
        self.alive(context)
    }

    /// A context that exists and that no fault has taken.
    pub fn alive(&self, context: usize) -> Result<usize, c_int> {
        if !self.state.devices.iter().any(|device| device.context == context && context != 0) {
            return Err(INVALID_CONTEXT);
        }
        self.state.lost.get(&context).map_or(Ok(context), |code| Err(*code))
    }

    /// The device of a context; the first one where none is said.
    pub fn ordinal_of(&self, context: Option<usize>) -> c_int {
        let owner = self.state.devices.iter().position(|device| Some(device.context) == context);
        owner.map_or(0, |ordinal| ordinal as c_int)
    }

    /// Refuses a handle of another context than the thread's.
    pub fn in_context_of(&self, owner: usize) -> Result<(), c_int> {
        if self.context()? == owner { Ok(()) } else { Err(INVALID_HANDLE) }
    }
}

/// Whether the calling thread is inside a call: what it allocates there is not its caller's.
#[must_use]
pub fn in_a_call() -> bool {
    INSIDE.get()
}

/// Makes a call of a name.
pub(crate) fn call(name: &'static str, body: impl FnOnce(&mut Call<'_>) -> Result<(), c_int>) -> c_int {
    INSIDE.set(true);
    let code = answer(name, body);
    INSIDE.set(false);
    code
}

fn answer(name: &'static str, body: impl FnOnce(&mut Call<'_>) -> Result<(), c_int>) -> c_int {
    let answer = THREAD.try_with(|thread| {
        let mut thread = thread.borrow_mut();
        let machine = thread.machine.clone().or_else(Machine::of_process).ok_or(NOT_INITIALIZED)?;
        let mut state = machine.state();
        state.log.push(name);
        let now = state.fails.iter().position(|fails| fails.left == 0).map(|at| state.fails.swap_remove(at));
        state.fails.iter_mut().for_each(|fails| fails.left -= 1);
        if let Some(Failure { code, late: false, .. }) = now {
            return Err(code);
        }
        if !state.initialised && !matches!(name, "cuInit" | "cuDriverGetVersion") {
            return Err(NOT_INITIALIZED);
        }
        let mut call = Call { state: &mut state, thread: &mut thread, id: std::thread::current().id() };
        // What a kernel's emulation finds wrong is a fault, and may not unwind through a foreign call.
        let done = catch_unwind(AssertUnwindSafe(|| body(&mut call))).unwrap_or(Err(LAUNCH_FAILED));
        done.and(now.map_or(Ok(()), |fails| Err(fails.code)))
    });
    match answer {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => NOT_INITIALIZED,
    }
}
