//! What is said: messages with sense, and such with something changed.

use std::time::Duration;

use pagelift_planner::quantity::Tokens;
use pagelift_transport::control::Message;
use pagelift_transport::lease::Terms;
use pagelift_transport::notice::{ExportId, Notice, ReadOutcome};
use pagelift_transport::offer::Offer;
use pagelift_transport::plan::{BlockTable, BlockTables};

use super::world::INCARNATION;
use crate::draw::Draw;
use crate::json::{any_value, change_somewhere};

/// Words that mean something somewhere, or look as if they did.
const WORDS: [&str; 40] = [
    "message",
    "hello",
    "offer",
    "ask",
    "granted",
    "refused",
    "heartbeat",
    "held",
    "not-held",
    "notice",
    "here",
    "bye",
    "request",
    "sent",
    "secs",
    "nanos",
    "imported",
    "export",
    "incarnation",
    "number",
    "rank",
    "outcome",
    "read",
    "failed",
    "cancelled",
    "terms",
    "lease",
    "blocks",
    "first",
    "digests",
    "main",
    "gdn",
    "metadata",
    "schema",
    "regions",
    "host",
    "device",
    "pages",
    "bases",
    "",
];

/// A message with sense, though perhaps not now.
pub(super) fn message(draw: &mut Draw, offer: &Offer) -> Message {
    let number = draw.below(4);
    let incarnation = if draw.once_in(4) { draw.number() } else { INCARNATION };
    let (export, rank) = (ExportId { incarnation, number }, u32::from(draw.once_in(8)));
    let (request, sent) = (draw.below(4), Duration::from_millis(draw.below(0x100)));
    match draw.below(13) {
        0 | 1 => Message::Offer { offer: Box::new(offer.clone()), metadata: b"peer".to_vec() },
        2 => Message::Ask { request, imported: Tokens::new(draw.below(0x100)), sent },
        3 => granted(draw, request, sent, export),
        4 => Message::Refused { request, sent, reason: "no".into() },
        5 => Message::Heartbeat { export, rank, sent },
        6 => Message::Held { export, rank, sent },
        7 => Message::NotHeld { export, rank },
        8 => {
            let outcome = draw.pick(&[ReadOutcome::Read, ReadOutcome::Failed, ReadOutcome::Cancelled]);
            Message::Notice(Notice { export, rank, outcome })
        }
        9 => Message::Here,
        10 => Message::Bye,
        11 => Message::Waiting { request, sent },
        _ => Message::Hello,
    }
}

/// An answer with tables of any sort.
pub(super) fn granted(draw: &mut Draw, request: u64, sent: Duration, export: ExportId) -> Message {
    let mut blocks = BlockTables::new();
    for group in ["main", "gdn"] {
        if draw.once_in(8) {
            continue;
        }
        let first = if draw.once_in(6) { draw.number() as u32 } else { 0 };
        let table = (0..draw.below(6)).map(|_| match draw.below(8) {
            0 => None,
            1 => Some(draw.number() as u32),
            _ => Some(draw.small(8)),
        });
        let table = table.collect();
        blocks = blocks.with(group, BlockTable::at(first, table));
    }
    let milliseconds = Duration::from_millis;
    let terms = match draw.below(8) {
        0 => Terms { lease: milliseconds(draw.below(0x100)), ..super::world::terms() },
        1 => Terms { heartbeat: milliseconds(draw.below(0x100)), ..super::world::terms() },
        2 => Terms { lease: Duration::MAX, ..super::world::terms() },
        _ => super::world::terms(),
    };
    Message::Granted { request, sent, export, terms, blocks }
}

/// A message as it is written down, or with something changed in it, or no message at all.
pub(super) fn content(draw: &mut Draw, message: &Message) -> Vec<u8> {
    let mut document = serde_json::to_value(message).expect("messages are JSON");
    match draw.below(8) {
        0..4 => {}
        7 => document = any_value(draw, &WORDS),
        changes => (3..changes).for_each(|_| change_somewhere(draw, &mut document, &WORDS)),
    }
    let mut text = document.to_string().into_bytes();
    if draw.once_in(16) {
        text.truncate(draw.below(text.len() as u64) as usize);
    }
    text
}
