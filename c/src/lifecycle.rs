//! Who may see which block, and when memory may be used again: an engine's scheduler asks.

use std::ffi::c_char;

use pagelift::id::HostBlockId;
use pagelift::import::Recurrence as RustRecurrence;
use pagelift::lifecycle::{
    self, ContentHash, Event, FrameLimits, Rank, Ranks, RequestId, Restores as RustRestores,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::foreign::{In, Out, Text, TextOut};
use crate::handle::{Handle, keep, object};
use crate::rows::PAGELIFT_NONE;
use crate::status::{Failure, Outcome, Status, answer, bad_value};

/// Who may see which block, and what may be used again, of all requests of an engine: one, at its scheduler.
///
/// It takes events and gives effects; ranks are told by orders, and answer with events, which a runner does. It has no
/// clock, and does no input or output. Events, effects, orders and what is known of a request are JSON, with the names
/// that they have in logs and in Python: {"event": "begin", "request": R, "tokens": 1}, where R is what {"effect":
/// "admitted", "request": R} brought. The documentation of the Rust library's `lifecycle::Event`, `Effect` and `Order`
/// lists them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Lifecycle {
    const fn handle(self) -> Handle<lifecycle::Lifecycle> {
        Handle::new(self.value)
    }
}

object!(lifecycle::Lifecycle, Lifecycle);

/// Reads JSON that is `what`.
pub fn parsed<T: DeserializeOwned>(what: &str, text: Text, name: &str) -> Outcome<T> {
    let text = text.read(name)?;
    serde_json::from_str(&text).map_err(|error| Failure::new(Status::BadText, format!("not {what}: {error}")))
}

/// Writes JSON, all of it or nothing.
pub fn told(out: TextOut, data: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(data);
    out.put_whole(&text.map_err(|error| Failure::new(Status::Internal, error.to_string()))?)
}

/// What a lifecycle has room for, and whose it is: plain data, for the scheduler and, as it is, for each rank's runner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LifecycleOptions {
    /// sizeof(pagelift_lifecycle_options).
    pub size: u32,
    /// Ranks: 1 to 64.
    pub ranks: u32,
    /// The ranks that write host blocks, a bit for each; 0 means all: right where each has its own heads. One where all
    /// have the same rows.
    pub writers: u64,
    /// Tokens of a block and of a page.
    pub block_tokens: u32,
    /// A pagelift_recurrence.
    pub recurrence: u32,
    /// Requests at one time.
    pub requests: u32,
    /// Host blocks.
    pub blocks: u32,
    /// Pages.
    pub pages: u32,
    /// Sealed pages that stay behind each one that is written.
    pub keep: u32,
    /// Steps after which a draft layer's rows are final: 0 to 2.
    pub draft_lag: u32,
    /// How often a lift that failed is tried again.
    pub retries: u32,
    /// A pagelift_restores.
    pub restores: u32,
    /// The most blocks of a request, where some group has pages for no more; 0 where each has pages for all.
    pub positions: u32,
}

/// What host blocks give back of all that their tokens have left behind.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restores {
    /// All, in every group, to whoever finds them.
    Prefixes = 0,
    /// All, to the request that they are of: some group has a block for each request, as rings do, or states that land on
    /// the device. Nobody else finds a block.
    Requests = 1,
    /// Not all: some group is on the device alone. Nobody finds a block, and a lost rank takes preempted requests with it.
    Nothing = 2,
}

impl LifecycleOptions {
    /// What C asks for, by a parameter that is named `what`.
    pub fn read(options: In<Self>, what: &str) -> Outcome<lifecycle::LifecycleOptions> {
        let options = options.sized(what)?;
        let wrong = |field, found, expected| bad_value(&format!("{what}->{field}"), found, expected);
        let ranks = u8::try_from(options.ranks).map_err(|_| wrong("ranks", options.ranks, "1 to 64"))?;
        let writers = match options.writers {
            0 => Ranks::first(ranks),
            mask => {
                (0..64).filter(|number| mask >> number & 1 == 1).fold(Ranks::NONE, |mut writers, number| {
                    writers.insert(Rank::new(number));
                    writers
                })
            }
        };
        let recurrence = match options.recurrence {
            0 => RustRecurrence::None,
            1 => RustRecurrence::State,
            other => return Err(wrong("recurrence", other, "a pagelift_recurrence")),
        };
        let restores = match options.restores {
            0 => RustRestores::Prefixes,
            1 => RustRestores::Requests,
            2 => RustRestores::Nothing,
            other => return Err(wrong("restores", other, "a pagelift_restores")),
        };
        let positions = if options.positions == 0 { u32::MAX } else { options.positions };
        Ok(lifecycle::LifecycleOptions {
            ranks,
            writers,
            block_tokens: options.block_tokens,
            recurrence,
            requests: options.requests,
            blocks: options.blocks,
            pages: options.pages,
            keep: options.keep,
            draft_lag: options.draft_lag,
            retries: options.retries,
            limits: FrameLimits { restores, positions },
        })
    }
}

/// Makes a lifecycle. Free it by `pagelift_lifecycle_free`.
///
/// Errors: PAGELIFT_LIFECYCLE for options that cannot be, PAGELIFT_OUT_OF_MEMORY, PAGELIFT_BAD_VALUE, PAGELIFT_WRONG_SIZE.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_new(options: In<LifecycleOptions>, lifecycle: Out<Lifecycle>) -> Status {
    answer(|| {
        let out = lifecycle.ready("lifecycle")?;
        let options = LifecycleOptions::read(options, "options")?;
        out.put(Lifecycle { value: keep(lifecycle::Lifecycle::new(options)?)? });
        Ok(())
    })
}

/// Takes an event. What is to be done then, `pagelift_lifecycle_effects` and `pagelift_lifecycle_orders` tell, until the
/// next event.
///
/// Errors: PAGELIFT_BAD_TEXT for what is no event; PAGELIFT_LIFECYCLE where it makes no sense now, or there is no room
/// for what it asks. Nothing has changed then, but what was counted. Those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_apply(lifecycle: Lifecycle, event: Text) -> Status {
    answer(|| {
        let event: Event<'static> = parsed("an event", event, "event")?;
        lifecycle.handle().change(|own| Ok(own.apply(&event).map(drop)?))
    })
}

/// Tells the effects of the last event, in that order: a list.
///
/// Text is written as a whole: PAGELIFT_CAPACITY where there is no room for it, with `needed` set to the bytes that it
/// takes, the 0 at the end among them; then ask again. Other errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_effects(
    lifecycle: Lifecycle,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        lifecycle.handle().look(|own| told(out, &own.effects()))
    })
}

/// Tells what all ranks are told of the last event, in that order: a list, each item for `pagelift_runner_hear`, there
/// or through a pipe.
///
/// Errors: as `pagelift_lifecycle_effects`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_orders(
    lifecycle: Lifecycle,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        lifecycle.handle().look(|own| told(out, &own.orders().collect::<Vec<_>>()))
    })
}

/// Tells what is known of a request (the JSON that `admitted` brought): "stage", "begun" (steps), "next_token",
/// "durable" (tokens whose rows are safe in the host pool), "blocks" by position, and "pages" as [position, page,
/// state]; null where it is over.
///
/// Errors: PAGELIFT_BAD_TEXT, and as `pagelift_lifecycle_effects`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_request(
    lifecycle: Lifecycle,
    request: Text,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        let id: RequestId = parsed("a request", request, "request")?;
        lifecycle.handle().look(|own| {
            let known = own.request(id).map(|view| {
                let blocks: Vec<_> = view.blocks().iter().map(|block| block.get()).collect();
                let pages =
                    view.pages().map(|(position, page, state)| json!([position, page.get(), word(&state)]));
                json!({
                    "stage": word(&view.stage()),
                    "begun": view.begun(),
                    "next_token": view.next_token().get(),
                    "durable": view.durable().get(),
                    "blocks": blocks,
                    "pages": pages.collect::<Vec<_>>(),
                })
            });
            told(out, &known)
        })
    })
}

/// The name of a variant without fields, as a word.
fn word(variant: &impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

/// Gives the block that others find by a content hash of 128 bits; PAGELIFT_NONE where there is none.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_find(
    lifecycle: Lifecycle,
    hash_high: u64,
    hash_low: u64,
    block: Out<u32>,
) -> Status {
    answer(|| {
        let block = block.ready("block")?;
        let hash = ContentHash::new(u128::from(hash_high) << 64 | u128::from(hash_low));
        block.put(lifecycle.handle().look(|own| Ok(own.find(hash).map_or(PAGELIFT_NONE, HostBlockId::get)))?);
        Ok(())
    })
}

/// Counts the requests that use a block.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_users(lifecycle: Lifecycle, block: u32, users: Out<u32>) -> Status {
    answer(|| {
        let users = users.ready("users")?;
        users.put(lifecycle.handle().look(|own| Ok(own.users(HostBlockId::new(block))))?);
        Ok(())
    })
}

/// What of a lifecycle is free.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LifecycleRoom {
    /// sizeof(pagelift_lifecycle_room).
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Requests that are not over.
    pub requests: u64,
    /// Pages that nobody holds.
    pub free_pages: u64,
    /// Blocks that nobody uses and nobody finds.
    pub free_blocks: u64,
    /// Blocks that a request could have: free ones, and those that others find and nobody uses.
    pub available_blocks: u64,
}

/// Tells what of a lifecycle is free. Set `free->size` before.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_rooms(lifecycle: Lifecycle, free: Out<LifecycleRoom>) -> Status {
    answer(|| {
        let free = free.sized("free")?;
        free.put_sized(lifecycle.handle().look(|own| {
            Ok(LifecycleRoom {
                size: 0,
                reserved: 0,
                requests: own.requests().count() as u64,
                free_pages: own.free_pages() as u64,
                free_blocks: own.free_blocks() as u64,
                available_blocks: own.available_blocks() as u64,
            })
        })?);
        Ok(())
    })
}

/// Tells sums since the lifecycle was made, by name: JSON.
///
/// Errors: as `pagelift_lifecycle_effects`.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_counters(
    lifecycle: Lifecycle,
    buffer: Out<c_char>,
    room: usize,
    needed: Out<usize>,
) -> Status {
    answer(|| {
        let out = TextOut::new(buffer, room, needed)?;
        lifecycle.handle().look(|own| told(out, &own.counters()))
    })
}

/// Frees a lifecycle.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_lifecycle_free(lifecycle: Lifecycle) -> Status {
    answer(|| lifecycle.handle().take().map(drop))
}
