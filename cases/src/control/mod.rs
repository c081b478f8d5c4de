//! Conversations of a prefill engine and a decode engine over their control channel, with something wrong.
//!
//! | case | what is wrong | what must hold |
//! |---|---|---|
//! | `bytes` | bytes between two honest sides are changed, left out, doubled, exchanged, cut off | what is accepted is what was said before the first wrong byte; then nothing more is |
//! | `guest` | whoever knows the secret says nonsense to P | it is closed at the first word that makes no sense; D's imports go on; whatever was exported is freed |
//! | `host` | whoever knows the secret says nonsense to D, as P | each import ends once; reads stay inside of D's memory; nothing is left in flight |

mod bytes;
mod forged;
mod guest;
mod host;
pub mod pipe;
mod said;
mod world;

use crate::draw::Draw;

/// Plays a case, and panics where something does not hold.
pub fn run(draw: &mut Draw) {
    match draw.below(3) {
        0 => bytes::run(draw),
        1 => guest::run(draw),
        _ => host::run(draw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_go_wrong_without_harm() {
        for seed in 0..600 {
            run(&mut Draw::seeded(seed));
        }
    }
}
