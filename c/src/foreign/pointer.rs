//! Pointers that C hands over.
//!
//! They are values of types that only C can make: their fields are private, and no function here makes one of an address. So a
//! function that takes one is called by C, which promises for each pointer that is neither null nor misaligned:
//!
//! 1. It is valid for reads (`In`, `Text`) or writes (`Out`) of its type, of as many items as the count beside it says, and of text up
//!    to and with the 0 at its end.
//! 2. Until the call returns, no other thread writes what it points to; of `Out`, nor reads it.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use crate::status::{Failure, Outcome, Status, bad_value};

/// Types that any bytes are a value of.
///
/// # Safety
/// 1. It is an integer, a pointer of this module's, or `repr(C)` of such, so that any initialised bytes are one.
pub unsafe trait Plain: Copy {}

/// Structs that may grow: they begin with their size.
///
/// # Safety
/// 1. As [`Plain`], and `repr(C)` with a `u32` first, which holds the size.
/// 2. `SIZES` are the sizes that it had, each at most what it has, and bytes that an earlier one lacks mean nothing when they are 0.
pub unsafe trait Versioned: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// The sizes that are known.
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

/// Something to read, or null.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

/// Room for something, or null.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

/// A function of the caller's that replays a graph, given what it has asked for: 0 means that it has done so.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Replay(Option<unsafe extern "C" fn(user: *mut c_void) -> i32>);

/// Text that ends with a 0, or null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

fn null(what: &str) -> Failure {
    Failure::new(Status::NullPointer, format!("`{what}` is null"))
}

/// Refuses an address that is null or not aligned for a `T`.
fn check<T>(pointer: *const T, what: &str) -> Outcome {
    if pointer.is_null() {
        return Err(null(what));
    }
    if !pointer.is_aligned() {
        let (needed, address) = (align_of::<T>(), pointer.addr());
        let text = format!("`{what}` is {address:#x}, which is not aligned to {needed} bytes");
        return Err(Failure::new(Status::Misaligned, text));
    }
    Ok(())
}

/// Refuses a list that is no array of anybody's.
fn fits<T>(count: usize, what: &str) -> Outcome {
    let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
    bytes.map(drop).ok_or_else(|| bad_value(what, format_args!("a list of {count}"), "one that fits memory"))
}

impl<T> In<T> {
    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Plain> In<T> {
    /// What is there.
    pub fn read(self, what: &str) -> Outcome<T> {
        check(self.0, what)?;
        // SAFETY: neither null nor misaligned, so (1, 2) of this module's conditions hold; any bytes are a `T`.
        Ok(unsafe { self.0.read() })
    }

    /// A copy of `count` items. Null is an empty list where `count` is 0.
    pub fn list(self, count: usize, what: &str) -> Outcome<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        check(self.0, what)?;
        fits::<T>(count, what)?;
        // SAFETY: neither null nor misaligned, so (1, 2) of this module's conditions hold for `count` items, whose bytes fit an
        // `isize`; any bytes are a `T`. The slice ends with this expression.
        let items = unsafe { std::slice::from_raw_parts(self.0, count) };
        let mut list = Vec::new();
        let no_memory = |_| {
            Failure::new(Status::OutOfMemory, format!("there is no memory for the {count} items of `{what}`"))
        };
        list.try_reserve_exact(count).map_err(no_memory)?;
        list.extend_from_slice(items);
        Ok(list)
    }
}

impl<T: Versioned> In<T> {
    /// The struct that is there, of whichever size is known.
    pub fn sized(self, what: &str) -> Outcome<T> {
        check(self.0, what)?;
        // SAFETY: (1) a `T` begins with a `u32`, and by this module's condition 1 at least that can be read: a caller with an earlier
        // header has promised for the struct of that header, which begins so too.
        let size = unsafe { self.0.cast::<u32>().read() } as usize;
        known::<T>(size, what)?;
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: `size` bytes can be read, for the caller said so by it, and there is room for them, by 2 of `Versioned`. What is
        // local is not where the caller's struct is.
        unsafe { std::ptr::copy_nonoverlapping(self.0.cast::<u8>(), value.as_mut_ptr().cast(), size) };
        // SAFETY: all bytes are initialised, and any are a `T`, by 1 of `Versioned`.
        Ok(unsafe { value.assume_init() })
    }

    /// The same; `None` for null.
    pub fn sized_or_null(self, what: &str) -> Outcome<Option<T>> {
        if self.is_null() { Ok(None) } else { self.sized(what).map(Some) }
    }
}

fn known<T: Versioned>(size: usize, what: &str) -> Outcome {
    if T::SIZES.contains(&size) {
        return Ok(());
    }
    let (name, expected) = (T::NAME, size_of::<T>());
    let text = format!("`{what}->size` is {size}; `{name}` has {expected} bytes: set it to sizeof({name})");
    Err(Failure::new(Status::WrongSize, text))
}

/// Room that was looked at: a value can be put there.
#[derive(Debug)]
pub struct Ready<T>(*mut T);

impl<T> Out<T> {
    /// Looks whether there is room, before a call changes anything.
    pub fn ready(self, what: &str) -> Outcome<Ready<T>> {
        check(self.0, what)?;
        Ok(Ready(self.0))
    }

    /// The same, where nobody needs the value that passes null.
    pub fn ready_or_null(self, what: &str) -> Outcome<Option<Ready<T>>> {
        if self.0.is_null() { Ok(None) } else { self.ready(what).map(Some) }
    }
}

impl<T: Versioned> Out<T> {
    /// Looks whether there is room for a struct of a size that is known.
    pub fn sized(self, what: &str) -> Outcome<Ready<T>> {
        check(self.0, what)?;
        // SAFETY: as in `In::sized`: the caller has set the size, which the header asks for.
        let size = unsafe { self.0.cast::<u32>().read() } as usize;
        known::<T>(size, what)?;
        Ok(Ready(self.0))
    }
}

impl<T> Ready<T> {
    /// Puts the value there.
    pub fn put(self, value: T)
    where
        T: Copy,
    {
        // SAFETY: neither null nor misaligned, so (1, 2) of this module's conditions hold.
        unsafe { self.0.write(value) };
    }
}

impl<T: Plain> Ready<T> {
    /// What the caller has put there: a call that changes it.
    pub fn get(&self) -> T {
        // SAFETY: neither null nor misaligned, so (1, 2) of this module's conditions hold, and the header says that the caller sets
        // what a call reads; any bytes are a `T`.
        unsafe { self.0.read() }
    }
}

impl<T: Versioned> Ready<T> {
    /// Puts as much of the struct there as the caller knows of.
    pub fn put_sized(self, mut value: T) {
        let to = self.0.cast::<u32>();
        // SAFETY: as in `Out::sized`, which alone makes such.
        let size = unsafe { to.read() };
        let from = (&raw mut value).cast::<u32>();
        // SAFETY: (1) a `T` begins with a `u32`, which holds the size.
        unsafe { from.write(size) };
        // SAFETY: `size` was compared with those known, so that `value` has as many bytes, and by this module's conditions 1 and 2 the
        // caller has room for as many as it said. What is local is not where the caller's struct is.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), self.0.cast(), size as usize) };
    }
}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl Out<c_void> {
    /// The address of something that only the engine and its driver know the type of.
    pub(super) fn raw(self) -> *mut c_void {
        self.0
    }

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Where it is.
    pub fn address(self) -> u64 {
        self.0.addr() as u64
    }

    /// The end of `bytes` bytes there, where memory has one.
    pub fn end(self, bytes: usize) -> Option<usize> {
        self.0.addr().checked_add(bytes).filter(|_| isize::try_from(bytes).is_ok())
    }
}

impl Replay {
    /// Calls it.
    pub fn call(self, user: Out<c_void>) -> Outcome<i32> {
        let function = self.0.ok_or_else(|| null("replay"))?;
        // SAFETY: both come from C, where 1 of `pagelift_runner_replay` asks that the one may be called with the other.
        Ok(unsafe { function(user.0) })
    }
}

impl Text {
    /// The text.
    pub fn read(self, what: &str) -> Outcome<String> {
        if self.0.is_null() {
            return Err(null(what));
        }
        // SAFETY: it is not null, so (1, 2) of this module's conditions hold: it ends with a 0 and is copied here.
        let text = unsafe { CStr::from_ptr(self.0) };
        let not_utf8 = |_| Failure::new(Status::BadText, format!("`{what}` is not UTF-8"));
        let text = text.to_str().map_err(not_utf8)?;
        let mut copy = String::new();
        let no_memory = |_| {
            let bytes = text.len();
            Failure::new(Status::OutOfMemory, format!("there is no memory for the {bytes} bytes of `{what}`"))
        };
        copy.try_reserve_exact(text.len()).map_err(no_memory)?;
        copy.push_str(text);
        Ok(copy)
    }
}

/// Room for text.
pub struct TextOut {
    buffer: Option<Ready<c_char>>,
    room: usize,
    needed: Option<Ready<usize>>,
}

impl TextOut {
    /// `room` bytes at `buffer`, and where to say how many are needed.
    pub fn new(buffer: Out<c_char>, room: usize, needed: Out<usize>) -> Outcome<Self> {
        let needed = needed.ready_or_null("needed")?;
        let buffer = if room == 0 { None } else { Some(buffer.ready("buffer")?) };
        Ok(Self { buffer, room, needed })
    }

    /// Puts all of the text there, or nothing: text that was cut would be of no use.
    pub fn put_whole(self, text: &str) -> Outcome {
        let needed = text.len().saturating_add(1);
        if self.room >= needed {
            return self.put(text);
        }
        let said = format!("the text takes {needed} bytes, and `buffer` has room for {}", self.room);
        if let Some(at) = self.needed {
            at.put(needed);
        }
        Err(Failure::new(Status::Capacity, said))
    }

    /// Puts the text there, cut where there is no room for more, with a 0 at its end.
    pub fn put(self, text: &str) -> Outcome {
        if let Some(buffer) = self.buffer {
            // A letter of several bytes is cut off as a whole.
            let mut end = text.len().min(self.room.saturating_sub(1));
            while !text.is_char_boundary(end) {
                end = end.saturating_sub(1);
            }
            let to = buffer.0.cast::<u8>();
            // SAFETY: by this module's condition 1 there are `room` bytes, of which the text takes `end`, less than that, and the 0
            // one. What is ours is not where the caller's buffer is.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), to, end);
                to.add(end).write(0);
            }
        }
        if let Some(needed) = self.needed {
            needed.put(text.len().saturating_add(1));
        }
        Ok(())
    }
}

/// Room for a list.
pub struct Room<T>(*mut T, usize);

impl<T: Plain> Out<T> {
    /// Looks whether there is room for `count` items. Null is none where `count` is 0.
    pub fn room(self, count: usize, what: &str) -> Outcome<Room<T>> {
        if count > 0 {
            check(self.0, what)?;
            fits::<T>(count, what)?;
        }
        Ok(Room(self.0, count))
    }
}

impl<T: Plain> Room<T> {
    /// Puts as many items there as there is room for.
    pub fn put_list(self, items: &[T]) {
        let count = items.len().min(self.1);
        if count > 0 {
            // SAFETY: it was neither null nor misaligned, so by this module's conditions 1 and 2 there is room for as many items as
            // the caller said. What is ours is not where the caller's room is.
            unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), self.0, count) };
        }
    }
}

impl Room<u8> {
    /// Puts bytes there by and by, as many as there is room for, `most` at a time: `next` fills in those that come next.
    pub fn put_by(self, most: usize, mut next: impl FnMut(&mut [u8]) -> Outcome) -> Outcome {
        let bytes = self.1.min(most);
        let no_memory = |_| {
            Failure::new(Status::OutOfMemory, format!("there is no memory for {bytes} bytes on their way"))
        };
        let mut piece = Vec::new();
        piece.try_reserve_exact(bytes).map_err(no_memory)?;
        piece.resize(bytes, 0);
        let mut done = 0;
        while done < self.1 {
            piece.truncate(self.1 - done);
            next(&mut piece)?;
            // SAFETY: as in `put_list`, from the `done`th on: with this piece it is at most what there is room for.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), self.0.add(done), piece.len()) };
            done += piece.len();
        }
        Ok(())
    }
}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        $(
            // SAFETY: (1) integers, or `repr(C)` of integers and of this module's pointers.
            unsafe impl Plain for $type {}
        )*
    };
}

plain! {
    u8, u32, u64,
    crate::memory::Region,
    crate::memory::RegionId,
    crate::layout::Segment,
    crate::layout::StatePart,
    crate::import::ImportGroup,
    crate::runner::GroupFrames,
    crate::span::PromptSpan,
    crate::plan::LiftProgress,
}

macro_rules! versioned {
    ($($type:ty => $name:literal),* $(,)?) => {
        $(
            // SAFETY: (1) `repr(C)` of integers and of this module's pointers, a `u32` named `size` first. (2) There is one size yet.
            unsafe impl Versioned for $type {
                const NAME: &'static str = $name;
            }
            const _: () = assert!(std::mem::offset_of!($type, size) == 0);
        )*
    };
}

versioned! {
    crate::backend::GpuFacts => "pagelift_gpu_facts",
    crate::layout::PagedLayoutSpec => "pagelift_paged_layout_spec",
    crate::layout::RingLayoutSpec => "pagelift_ring_layout_spec",
    crate::layout::StateLayoutSpec => "pagelift_state_layout_spec",
    crate::layout::DenseShape => "pagelift_dense_shape",
    crate::layout::GdnShape => "pagelift_gdn_shape",
    crate::layout::SsmShape => "pagelift_ssm_shape",
    crate::layout::PleShape => "pagelift_ple_shape",
    crate::layout::LayoutFacts => "pagelift_layout_facts",
    crate::memory::HostPoolSpec => "pagelift_host_pool_spec",
    crate::geometry::PoolSpec => "pagelift_pool_spec",
    crate::geometry::SideSpec => "pagelift_side_spec",
    crate::geometry::GroupSpec => "pagelift_group_spec",
    crate::span::Decision => "pagelift_decision",
    crate::import::Import => "pagelift_import",
    crate::plan::PlanCapacity => "pagelift_plan_capacity",
    crate::rows::RowCapacity => "pagelift_row_capacity",
    crate::rows::RowBinding => "pagelift_row_binding",
    crate::launcher::LauncherOptions => "pagelift_launcher_options",
    crate::launcher::Counters => "pagelift_counters",
    crate::launcher::Report => "pagelift_report",
    crate::lifecycle::LifecycleOptions => "pagelift_lifecycle_options",
    crate::lifecycle::LifecycleRoom => "pagelift_lifecycle_room",
    crate::runner::RunnerOptions => "pagelift_runner_options",
    crate::runner::Staged => "pagelift_staged",
}
