//! Two honest sides, and somebody between them.

use pagelift_transport::control::{Frames, Greeting, MOST_FRAME, Message, Role, Secret};
use pagelift_transport::error::ControlError;

use super::pipe::SECRET;
use super::said::message;
use super::world::offers;
use crate::draw::Draw;

/// What comes of a stream that was touched.
struct Touched {
    bytes: Vec<u8>,
    /// Messages before the first wrong byte.
    whole: usize,
}

pub(super) fn run(draw: &mut Draw) {
    let [producer, consumer] = offers();
    let (role, offer) = if draw.once_in(2) { (Role::Producer, producer) } else { (Role::Consumer, consumer) };
    let said: Vec<Message> = (0..draw.below(7)).map(|_| message(draw, offer)).collect();
    let [mut from, mut to] = both(role);
    let frames: Vec<Vec<u8>> =
        said.iter().map(|message| from.encode(message).expect("it is small")).collect();
    let Touched { bytes, whole } = touched(draw, frames);

    let (mut heard, mut end, mut rest) = (Vec::new(), None, &bytes[..]);
    while !rest.is_empty() && end.is_none() {
        let piece = 1 + draw.below(0x200) as usize;
        let (piece, later) = rest.split_at(piece.min(rest.len()));
        rest = later;
        to.push(piece);
        end = loop {
            match to.next() {
                Ok(Some(message)) => heard.push(message),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        assert!(to.needs() <= MOST_FRAME + 36, "more is waited for than a frame has");
    }
    assert_eq!(heard, said[..whole], "what was said before the first wrong byte, and no more");
    if end.is_some() {
        // Nothing that follows is heard, whatever it is.
        to.push(&from.encode(&Message::Here).expect("it is small"));
        assert_eq!(to.next(), Err(ControlError::Dead));
    }
}

/// The side that speaks, and the one that hears.
fn both(role: Role) -> [Frames; 2] {
    let secret = Secret::new(SECRET).expect("it is long enough");
    let own = Greeting::new(role, [1; 32]);
    let other = if role == Role::Producer { Role::Consumer } else { Role::Producer };
    let theirs = Greeting::new(other, [2; 32]);
    [(own, theirs), (theirs, own)]
        .map(|(own, theirs)| own.answered(&secret, &theirs.to_bytes()).expect("it is one"))
}

/// Does something to a stream of frames, or nothing.
fn touched(draw: &mut Draw, mut frames: Vec<Vec<u8>>) -> Touched {
    let count = frames.len();
    let at = draw.below(count as u64) as usize;
    let what = if count == 0 { 0 } else { draw.below(8) };
    let whole = match what {
        1 | 2 => {
            // Mostly what says how much there is, and whose it is.
            let most = if what == 1 { 48.min(frames[at].len()) } else { frames[at].len() };
            let place = draw.below(most as u64) as usize;
            frames[at][place] ^= 1 << draw.below(8);
            at
        }
        3 => {
            frames.remove(at);
            at
        }
        4 => {
            let again = frames[at].clone();
            frames.insert(at + 1, again);
            at + 1
        }
        5 => {
            let other = draw.below(count as u64) as usize;
            frames.swap(at, other);
            if at == other { count } else { at.min(other) }
        }
        6 => {
            let left = draw.below(frames[at].len() as u64) as usize;
            frames[at].truncate(left);
            frames.truncate(at + 1);
            at
        }
        7 => {
            let mut noise = vec![0; 1 + draw.below(80) as usize];
            draw.fill(&mut noise);
            frames.insert(at, noise);
            at
        }
        _ => count,
    };
    Touched { bytes: frames.concat(), whole }
}
