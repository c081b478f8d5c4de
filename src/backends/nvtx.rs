//! Ranges for NVIDIA's profilers: what a thread stages and launches is named on their time line.
//!
//! A profiler that starts a program says in an environment variable which library it wants to be loaded. That library is
//! given tables of places for functions, writes its own into them, and is called from then on. This is what NVIDIA's
//! headers do (`nvtx3/nvtxDetail/`, load sequence 2); nothing is linked, and where there is no profiler a range costs a
//! look at a word.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// What a profiler is told its events are of.
const DOMAIN: &CStr = c"pagelift";

/// `NVTX_VERSION`.
const VERSION: u16 = 3;

/// Functions of each module, from `NVTX_CB_MODULE_CORE` on; the first of each is none.
const MODULES: [usize; 6] = [16, 9, 15, 7, 16, 7];

/// `NVTX_CB_MODULE_CORE2` in [`MODULES`], and what we call of it: `NVTX_CBID_CORE2_…`.
const CORE2: usize = 4;
const PUSH: usize = 4;
const POP: usize = 5;
const CREATE_DOMAIN: usize = 12;

type Domain = *mut c_void;
type PushRange = unsafe extern "C" fn(Domain, *const Event) -> c_int;
type PopRange = unsafe extern "C" fn(Domain) -> c_int;
type CreateDomain = unsafe extern "C" fn(*const c_char) -> Domain;

/// `nvtxGetExportTable`, and what a profiler's library has: `InitializeInjectionNvtx2`.
type ExportTable = extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(ExportTable) -> c_int;

/// `nvtxEventAttributes_v2`.
#[repr(C)]
struct Event {
    version: u16,
    size: u16,
    category: u32,
    color_kind: i32,
    color: u32,
    payload_kind: i32,
    reserved: i32,
    payload: u64,
    message_kind: i32,
    message: *const c_char,
}

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    size: usize,
    tables: extern "C" fn(c_int, *mut *const Slot, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct Versions {
    size: usize,
    version: u32,
    reserved: u32,
    tell: extern "C" fn(u32),
}

/// A place for a function, and a pointer to one.
type Function = AtomicPtr<c_void>;
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Slot(*const Function);

// SAFETY: it points to an atomic that is never freed, or nowhere.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// The tables that a profiler writes its functions to. They are never freed: it keeps their addresses.
fn tables() -> &'static [&'static [Slot]] {
    static TABLES: OnceLock<Vec<&'static [Slot]>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let table = |functions: usize| {
            let places: Vec<Function> = (0..functions).map(|_| AtomicPtr::new(null_mut())).collect();
            let mut slots: Vec<Slot> = places.leak().iter().map(|place| Slot(place)).collect();
            if let Some(first) = slots.first_mut() {
                *first = Slot(null());
            }
            slots.push(Slot(null()));
            &*slots.leak()
        };
        MODULES.iter().map(|functions| table(*functions)).collect()
    })
}

extern "C" fn module_table(module: c_int, table: *mut *const Slot, functions: *mut c_uint) -> c_int {
    let index = usize::try_from(module).ok().and_then(|module| module.checked_sub(1));
    let Some(slots) = index.and_then(|index| tables().get(index)) else { return 0 };
    if !table.is_null() {
        // SAFETY: the profiler passes null, or where it wants to have the table.
        unsafe { table.write(slots.as_ptr()) };
    }
    if !functions.is_null() {
        // The last entry, which is none, does not count.
        let count = slots.len().saturating_sub(1);
        // SAFETY: the profiler passes null, or where it wants to have the number.
        unsafe { functions.write(c_uint::try_from(count).unwrap_or(0)) };
    }
    1
}

extern "C" fn ignore(_version: u32) {}

extern "C" fn export_table(which: u32) -> *const c_void {
    static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), tables: module_table };
    static VERSIONS: Versions =
        Versions { size: size_of::<Versions>(), version: VERSION as u32, reserved: 0, tell: ignore };
    match which {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSIONS).cast(),
        _ => null(),
    }
}

/// A profiler that wants to know of ranges.
struct Profiler {
    domain: Domain,
    push: PushRange,
    pop: PopRange,
    // What the functions are in: it has to stay.
    _library: Option<Library>,
}

// SAFETY: its functions may be called from any thread, with a domain that any thread made.
unsafe impl Send for Profiler {}
// SAFETY: as above.
unsafe impl Sync for Profiler {}

impl Profiler {
    /// The one that the environment names.
    fn of_environment() -> Option<Self> {
        let path = std::env::var_os("NVTX_INJECTION64_PATH")?;
        // SAFETY: whoever set the variable wants this library to be run in this program.
        let library = unsafe { Library::new(path) }.ok()?;
        // SAFETY: a library for this purpose has a function of that name and signature.
        let initialize =
            unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2") }.map(|found| *found);
        // SAFETY: (1) as above.
        let profiler = unsafe { Self::attach(initialize.ok()?) }?;
        Some(Self { _library: Some(library), ..profiler })
    }

    /// Lets a profiler write its functions, and takes those that we call.
    ///
    /// # Safety
    /// 1. It keeps to the protocol: what it writes into a place is a function of that place's signature, which stays as long
    ///    as the program runs.
    unsafe fn attach(initialize: Initialize) -> Option<Self> {
        // SAFETY: (1) is ours.
        if unsafe { initialize(export_table) } == 0 {
            return None;
        }
        let function = |index: usize| {
            let Slot(place) = *tables().get(CORE2)?.get(index)?;
            // SAFETY: it points to an atomic that is never freed, or nowhere.
            let function = unsafe { place.as_ref() }?.load(Ordering::Acquire);
            (!function.is_null()).then_some(function)
        };
        let (push, pop) = (function(PUSH)?, function(POP)?);
        // SAFETY: what is in these places has these signatures (1).
        let (push, pop) = unsafe {
            (
                std::mem::transmute::<*mut c_void, PushRange>(push),
                std::mem::transmute::<*mut c_void, PopRange>(pop),
            )
        };
        // Without a domain of ours, ranges go to the profiler's default one.
        let domain = function(CREATE_DOMAIN).map_or(null_mut(), |create| {
            // SAFETY: as above; the name is a text that ends in a zero, and stays.
            unsafe { std::mem::transmute::<*mut c_void, CreateDomain>(create)(DOMAIN.as_ptr()) }
        });
        Some(Self { domain, push, pop, _library: None })
    }

    /// Opens a range.
    fn push(&'static self, message: fmt::Arguments<'_>, payload: u64) -> Range {
        let mut text = Text { bytes: [0; TEXT], used: 0 };
        // What does not fit is cut off.
        let _ = text.write_fmt(message);
        let event = Event {
            version: VERSION,
            size: size_of::<Event>() as u16,
            category: 0,
            color_kind: 0,
            color: 0,
            // `NVTX_PAYLOAD_TYPE_UNSIGNED_INT64` and `NVTX_MESSAGE_TYPE_ASCII`.
            payload_kind: 1,
            reserved: 0,
            payload,
            message_kind: 1,
            message: text.bytes.as_ptr().cast(),
        };
        // SAFETY: the event is as its version and size say, and its message ends in a zero; both are copied.
        unsafe { (self.push)(self.domain, &raw const event) };
        Range(self, PhantomData)
    }
}

/// Bytes of a message, with its last zero.
const TEXT: usize = 128;

/// A message that is written without allocating.
struct Text {
    bytes: [u8; TEXT],
    used: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = (TEXT - 1).saturating_sub(self.used);
        let more = more.as_bytes();
        let fits = more.len().min(room);
        if let Some(to) = self.bytes.get_mut(self.used..self.used + fits) {
            to.copy_from_slice(&more[..fits]);
        }
        self.used += fits;
        if fits == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A range of the calling thread, until it is dropped. It stays with its thread.
#[must_use]
pub(crate) struct Range(&'static Profiler, PhantomData<*const ()>);

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: it was opened by this thread: a range is not sent to another.
        unsafe { (self.0.pop)(self.0.domain) };
    }
}

/// Opens a range where there is a profiler. The message is written only then.
#[inline]
pub(crate) fn range(message: fmt::Arguments<'_>, payload: u64) -> Option<Range> {
    static PROFILER: OnceLock<Option<Profiler>> = OnceLock::new();
    PROFILER.get_or_init(Profiler::of_environment).as_ref().map(|profiler| profiler.push(message, payload))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What the profiler below was told.
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn hear(what: String) {
        HEARD.lock().unwrap().push(what);
    }

    unsafe extern "C" fn heard_domain(name: *const c_char) -> Domain {
        // SAFETY: it is a text that ends in a zero.
        hear(format!("domain {}", unsafe { CStr::from_ptr(name) }.to_str().unwrap()));
        std::ptr::without_provenance_mut(7)
    }

    unsafe extern "C" fn heard_push(domain: Domain, event: *const Event) -> c_int {
        // SAFETY: it is an event.
        let event = unsafe { &*event };
        assert_eq!((event.version, usize::from(event.size)), (3, 48));
        assert_eq!((event.message_kind, event.payload_kind), (1, 1));
        // SAFETY: its message is a text that ends in a zero.
        let message = unsafe { CStr::from_ptr(event.message) }.to_str().unwrap();
        hear(format!("{} push {message} {}", domain.addr(), event.payload));
        0
    }

    unsafe extern "C" fn heard_pop(domain: Domain) -> c_int {
        hear(format!("{} pop", domain.addr()));
        0
    }

    /// A profiler, written from the side of the protocol that it is on.
    unsafe extern "C" fn profiler(export: ExportTable) -> c_int {
        assert!(export(2).is_null());
        // SAFETY: table 1 is the callbacks', and 3 the version's.
        let (callbacks, versions) =
            unsafe { (&*export(1).cast::<Callbacks>(), &*export(3).cast::<Versions>()) };
        assert_eq!((callbacks.size, versions.size, versions.version), (16, 24, 3));
        (versions.tell)(3);
        assert_eq!((callbacks.tables)(0, null_mut(), null_mut()), 0);
        assert_eq!((callbacks.tables)(7, null_mut(), null_mut()), 0);
        let mut found = Vec::new();
        for module in 1..=6 {
            let (mut table, mut count) = (null(), 0);
            assert_eq!((callbacks.tables)(module, &raw mut table, &raw mut count), 1);
            found.push((table, count));
        }
        assert_eq!(found.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [16, 9, 15, 7, 16, 7]);
        let functions = [
            (PUSH, heard_push as *mut c_void),
            (POP, heard_pop as *mut c_void),
            (CREATE_DOMAIN, heard_domain as *mut c_void),
        ];
        for (index, function) in functions {
            // SAFETY: the table has so many slots, and this one points to a place.
            unsafe { (*(*found[4].0.add(index)).0).store(function, Ordering::Release) };
        }
        1
    }

    unsafe extern "C" fn unwilling(_export: ExportTable) -> c_int {
        0
    }

    #[test]
    fn a_profiler_hears_of_ranges() {
        // SAFETY: (1) it gives up.
        assert!(unsafe { Profiler::attach(unwilling) }.is_none());
        static PROFILER: OnceLock<Profiler> = OnceLock::new();
        // SAFETY: (1) it keeps to the protocol.
        let profiler = PROFILER.get_or_init(|| unsafe { Profiler::attach(profiler) }.unwrap());
        let outer = profiler.push(format_args!("stage {}: {} jobs", "pages", 3), 4096);
        drop(profiler.push(format_args!("{:200}", "long"), 0));
        drop(outer);
        let long = format!("7 push {:127} 0", "long");
        let heard = HEARD.lock().unwrap();
        assert_eq!(
            heard[..],
            ["domain pagelift", "7 push stage pages: 3 jobs 4096", &long, "7 pop", "7 pop"]
        );
    }

    #[test]
    fn without_a_profiler_there_are_no_ranges() {
        if std::env::var_os("NVTX_INJECTION64_PATH").is_none() {
            assert!(range(format_args!("{}", panics()), 0).is_none());
        }
    }

    /// A message that may not be written.
    fn panics() -> impl fmt::Display {
        std::fmt::from_fn(|_| panic!("nobody listens"))
    }
}
