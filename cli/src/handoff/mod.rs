//! `pagelift prefill` and `pagelift decode`: an import between two processes, over NIXL, of which every byte is proved.
//!
//! P fills pools of its own, arranged in another way than D's, with the reference's content, and exports it. D is the engine of
//! [`crate::restore`] with reads in place of the played transfer.
//!
//! | file | question it answers |
//! |---|---|
//! | `prefill` | what does P do? |
//! | `fill` | how does P's content come into its pools? |
//! | `arrange` | how does P keep what D's manifest imports? |
//! | `decode` | what does D do? |
//! | `reads` | how do the blocks of an import come? |
//! | `facts` | what do both say of their groups? |
//! | `mapped` | where does a transport reach the pools? |
//! | `digests` | do P's blocks and D's hold the same rows? |
//! | `agent` | NIXL, with the pools registered |
//! | `secret` | what do both know, and nobody else? |
//! | `ranks` | a process for each rank |
//! | `report` | what is said of all that |

#[cfg(feature = "nixl")]
mod agent;
#[cfg(feature = "nixl")]
mod arrange;
#[cfg(feature = "nixl")]
mod decode;
#[cfg(feature = "nixl")]
mod digests;
#[cfg(feature = "nixl")]
mod error;
#[cfg(feature = "nixl")]
mod facts;
#[cfg(feature = "nixl")]
mod fill;
#[cfg(feature = "nixl")]
mod mapped;
#[cfg(feature = "nixl")]
mod prefill;
#[cfg(feature = "nixl")]
mod ranks;
#[cfg(feature = "nixl")]
mod reads;
#[cfg(feature = "nixl")]
mod report;
#[cfg(feature = "nixl")]
mod secret;

#[cfg(feature = "nixl")]
pub use decode::command as decode;
#[cfg(feature = "nixl")]
pub use fill::rehearse;
#[cfg(feature = "nixl")]
pub use prefill::command as prefill;

/// `pagelift prefill`, where NIXL is not built in.
#[cfg(not(feature = "nixl"))]
pub fn prefill(_: &crate::args::Prefill) -> Result<(), crate::Failure> {
    Err(not_built())
}

/// `pagelift decode`, where NIXL is not built in.
#[cfg(not(feature = "nixl"))]
pub fn decode(_: &crate::args::Decode) -> Result<(), crate::Failure> {
    Err(not_built())
}

/// Why there is nothing of it.
#[cfg(not(feature = "nixl"))]
pub fn not_built() -> crate::Failure {
    crate::Failure {
        message: "this program was built without NIXL. In a checkout, run `cargo xtask nixl`, set what it prints, and build \
                  with `--features nixl`"
            .into(),
        code: crate::exit::UNABLE,
    }
}
