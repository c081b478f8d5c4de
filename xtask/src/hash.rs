//! One hash over named pieces of text.

use sha2::{Digest, Sha256};

/// SHA-256 over pieces that are told apart: what one piece loses at its end, the next cannot gain at its beginning.
#[derive(Default)]
pub struct Pieces(Sha256);

impl Pieces {
    /// Adds a piece.
    pub fn add(&mut self, name: &str, content: &[u8]) {
        for part in [name.as_bytes(), content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// The hash of all pieces in the order they came, as `sha256:<hex>`.
    pub fn finish(self) -> String {
        label(&self.0.finalize())
    }
}

/// The hash of one file's content, as `sha256:<hex>`; the hex is what `sha256sum` prints.
pub fn of(content: &[u8]) -> String {
    label(&Sha256::digest(content))
}

fn label(digest: &[u8]) -> String {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(pieces: &[(&str, &str)]) -> String {
        let mut all = Pieces::default();
        for (name, content) in pieces {
            all.add(name, content.as_bytes());
        }
        all.finish()
    }

    #[test]
    fn moving_bytes_between_pieces_changes_the_hash() {
        assert_ne!(hash(&[("a", "xy"), ("b", "z")]), hash(&[("a", "x"), ("b", "yz")]));
        assert_ne!(hash(&[("ab", "x")]), hash(&[("a", "bx")]));
    }

    #[test]
    fn a_file_hashes_as_sha256sum_says() {
        assert_eq!(of(b"abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
