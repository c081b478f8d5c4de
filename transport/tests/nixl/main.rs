//! Two processes over the real library: P exports every kind of group, D reads them, and every byte is compared.
//!
//! D is the test, and P this program again, told by its environment that it is P. What would go over a control channel
//! goes through P's standard input and output, a line of JSON each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

mod decode;
#[path = "../transport/engines.rs"]
mod engines;
mod handoff;
mod prefill;
#[path = "../transport/reference.rs"]
mod reference;
#[path = "../transport/world.rs"]
mod world;

use pagelift_transport::nixl::{Agent, AgentOptions, Library, NixlError, UCX_PARAMETERS};
use serde::{Deserialize, Serialize};
use world::{Arrangement, BLOCK, Engine, GroupMeaning, Meaning};

/// Says that the process is P.
const ROLE: &str = "PAGELIFT_TEST_PRODUCER";

/// P's first line.
#[derive(Serialize, Deserialize)]
struct Hello {
    offer: pagelift_transport::offer::Offer,
    metadata: Vec<u8>,
    exports: Vec<pagelift_transport::notice::ExportId>,
}

/// Every kind of group: main, indexer, compressed keys, ring, GDN, SSM, PLE.
fn groups() -> Vec<GroupMeaning> {
    let paged = |tokens_per_row| (Meaning::Paged { tokens_per_row }, BLOCK / tokens_per_row);
    let kinds: [(&str, (Meaning, u32), &[u32]); 7] = [
        ("main", paged(1), &[656]),
        ("indexer", paged(1), &[128, 4]),
        ("compressed", paged(4), &[256]),
        ("ring", (Meaning::Ring, 8), &[280]),
        ("gdn", (Meaning::State, 1), &[1000, 3000]),
        ("ssm", (Meaning::State, 1), &[600, 2048]),
        ("ple", (Meaning::State, 1), &[777]),
    ];
    kinds.map(|(name, (meaning, rows), segments)| GroupMeaning::new(name, meaning, 3, rows, segments)).into()
}

/// How P and D keep them: pages of other sizes, other strides, other orders.
fn arranged(producer: bool) -> Vec<Arrangement> {
    world::arranged(&groups(), producer, 8)
}

/// Where an engine's bytes really are.
fn really(engine: &Engine) -> u64 {
    engine.bytes.as_ptr().expose_provenance() as u64
}

#[test]
fn the_library_says_where_it_is() {
    let library = Library::open().unwrap();
    assert!(library.path().is_some_and(|path| path.ends_with("libnixl_capi.so")), "{library:?}");
    let plugins = Agent::plugins(&library).unwrap();
    assert!(plugins.iter().any(|plugin| plugin == "UCX"), "{plugins:?}");
}

#[test]
fn a_plugin_hears_of_its_parameters_and_may_refuse_them() {
    let library = Library::open().unwrap();
    let with = |parameters| AgentOptions { parameters, ..AgentOptions::new("told") };
    assert_eq!(AgentOptions::over("told", "UCX").parameters, UCX_PARAMETERS);
    assert!(AgentOptions::over("told", "POSIX").parameters.is_empty());
    drop(Agent::new(&library, with(&[("num_workers", "2")])).unwrap());
    let refused = Agent::new(&library, with(&[("num_workers", "many")])).map(drop).unwrap_err();
    assert!(matches!(refused, NixlError::Call { .. }), "{refused}");
    // A string that ends early is none of the library's.
    let refused = Agent::new(&library, with(&[("num\0", "2")])).map(drop).unwrap_err();
    assert!(matches!(refused, NixlError::Call { .. }), "{refused}");
}
