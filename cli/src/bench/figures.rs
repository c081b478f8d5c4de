//! The table of figures: what each measures, and what it must show on an H200.

use clap::ValueEnum;
use serde::Serialize;

use super::bars::At::{Best, Exactly, UpTo};
use super::bars::Bar::{self, Adds, EachJob, Faster, Host, PerByte, Share, Within};
use super::beside::{BRANCH, IN_ORDER};
use super::draft::Asked;
use super::measure::{BATCH, EACH, GRAPH, Work};
use super::rig::Rig;
use super::{BenchError, pages, rows, steps};

/// The figures, by letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// One tail, host to GPU.
    A,
    /// One import of two groups.
    B,
    /// 64 imports in one launch.
    C,
    /// Rows gathered by an index list.
    D,
    /// Rows mirrored, GPU to host.
    E,
    /// Pages rearranged on the GPU.
    F,
    /// Recurrent states.
    G,
    /// An empty table.
    H,
    /// What a step costs the host.
    I,
    /// A tail beside other work.
    J,
    /// Pieces of many sizes.
    Pieces,
}

impl Figure {
    /// Its letter.
    pub fn letter(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Its first work in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::A => "one tail",
            Self::B => "one import of two groups",
            Self::C => "64 imports",
            Self::D => "rows by an index list",
            Self::E => "rows written back",
            Self::F => "pages on the GPU",
            Self::G => "recurrent states",
            Self::H => "an empty table",
            Self::I => "steps",
            Self::J => "a tail beside other work",
            Self::Pieces => "pieces",
        }
    }
}

/// Makes a work in memory of its own.
type Build<B> = for<'r> fn(&'r B, &Asked) -> Result<Work<'r>, BenchError>;

/// One work of a figure.
pub struct Case<B> {
    pub figure: Figure,
    /// In words; no two have the same.
    pub name: &'static str,
    /// What it must show.
    pub bars: &'static [Bar],
    pub build: Build<B>,
}

/// The rows that other rows are compared with.
const ROWS_1024: &str = "8192 rows of 1,024 B by an index list, host to GPU";

/// The steps that longer ones are compared with.
const STEP_OF_64: &str = "steps of 64 imports of three groups: planning, staging and replaying";

/// All works.
pub fn cases<B: Rig>() -> Vec<Case<B>> {
    use Figure::{A, B as Import, C, D, E, F, G, H, I, J, Pieces};
    let case = |figure, name, bars, build| Case { figure, name, bars, build };
    let piece = |name, build| case(Pieces, name, &[], build);
    let row = |name, build| case(D, name, &[PerByte(Best, ROWS_1024, 1.5)], build);
    let mut cases = vec![
        case(
            A,
            "61 pages of 147,456 B, host to GPU",
            &[
                Share(Exactly(4), 0.89),
                Share(Exactly(2), 0.86),
                Share(Exactly(1), 0.70),
                Faster(UpTo(4), GRAPH, 1.7),
                Faster(UpTo(4), BATCH, 1.25),
            ],
            pages::tail,
        ),
        case(
            Import,
            "a V3.2 import: 61 latent and 61 split indexer pages",
            &[Share(UpTo(4), 0.85)],
            pages::import,
        ),
        case(Import, "the same, into pages with padded rows", &[Share(UpTo(4), 0.80)], pages::import_padded),
        case(Import, "the same, exactly 37 rows", &[Share(UpTo(4), 0.80)], pages::import_exact),
        case(C, "64 V3.2 imports of two groups", &[Share(UpTo(4), 0.88)], pages::many_imports),
        case(
            D,
            ROWS_1024,
            &[Share(Best, 0.88), Share(Exactly(4), 0.80), Faster(UpTo(4), EACH, 100.0)],
            rows::gather::<B, 1024>,
        ),
        row("8192 rows of 656 B", rows::gather::<B, 656>),
        row("8192 rows of 640 B", rows::gather::<B, 640>),
        row("8192 rows of 576 B", rows::gather::<B, 576>),
        case(D, "8192 rows of 132 B", &[], rows::gather::<B, 132>),
        case(
            E,
            "a row of 1,152 B of 64 requests and 61 layers, GPU to host",
            &[Share(UpTo(4), 0.85)],
            rows::mirror,
        ),
        case(E, "the same, and the indexer's 128 + 4 B", &[], rows::mirror_with_indexer),
        case(F, "512 pages of 147,456 B rearranged on the GPU", &[Share(Best, 0.85)], pages::regroup),
        case(G, "gated-delta-net states of 16 requests and 36 layers", &[Share(UpTo(2), 0.88)], pages::gdn),
        case(G, "Mamba2 states of 16 requests and 24 layers", &[Share(UpTo(2), 0.88)], pages::mamba2),
        case(H, "an empty table", &[Within(Exactly(4), 2.0)], pages::nothing),
        case(I, STEP_OF_64, &[Host(192, 10.0)], steps::alike::<B, { steps::FEW }>),
        case(I, "steps of 334 imports", &[], steps::alike::<B, { steps::MORE }>),
        case(I, "steps of 1,000 imports", &[], steps::alike::<B, { steps::MANY }>),
        case(I, "steps of 3,334 imports", &[EachJob(STEP_OF_64, 25.0)], steps::alike::<B, { steps::MOST }>),
        case(I, "steps of these sizes in turns", &[], steps::in_turns),
        piece("pieces of 1 KiB", pages::pieces::<B, 1024>),
        piece("pieces of 4 KiB", pages::pieces::<B, 4096>),
        piece("pieces of 16 KiB", pages::pieces::<B, 16_384>),
        piece("pieces of 64 KiB", pages::pieces::<B, 65_536>),
        piece("pieces of 256 KiB", pages::pieces::<B, 262_144>),
        piece("pieces of 1 MiB", pages::pieces::<B, 1_048_576>),
        piece("pieces of 4 MiB", pages::pieces::<B, 4_194_304>),
    ];
    // A processor has no other work to be beside.
    if B::GRAPHS {
        cases.push(case(J, "a tail beside four products of 8192 x 8192", &[], pages::tail_beside_products));
        let bars = &[Adds(BRANCH, IN_ORDER, 0.25)];
        cases.push(case(J, "a tail beside a step of 61 layers", bars, pages::tail_beside_step));
    }
    cases
}
