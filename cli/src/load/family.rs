//! What is handed over: caches that models have, and how large their pieces are.

use pagelift::error::LayoutError;
use pagelift::layout::{
    DenseShape, GdnShape, HeadOrder, KvRegions, KvScales, PagedLayout, StateLayout, StatePart,
};

/// One kind of cache.
pub struct Family {
    /// Its name, as `--only` takes it.
    pub name: &'static str,
    pub words: &'static str,
    pub layers: u32,
    layout: fn() -> Result<Layout, LayoutError>,
    /// How fast an import must be, where 1 is one large read of as many bytes.
    pub bar: Option<f64>,
}

/// The layout of a page.
#[derive(Clone, Debug)]
pub enum Layout {
    Paged(PagedLayout),
    State(StateLayout),
}

/// The family whose import is timed step by step, and that a load is made of.
pub const MAIN: &str = "mla-128";

/// All of them.
pub const FAMILIES: [Family; 7] = [
    Family {
        name: MAIN,
        words: "bf16 MLA, blocks of 128",
        layers: 61,
        layout: || PagedLayout::mla_bf16(128).map(Layout::Paged),
        bar: Some(0.8),
    },
    Family {
        name: "mla-64",
        words: "bf16 MLA, blocks of 64",
        layers: 61,
        layout: || PagedLayout::mla_bf16(64).map(Layout::Paged),
        bar: None,
    },
    Family {
        name: "fp8-64",
        words: "FP8 rows of 656 B, blocks of 64",
        layers: 61,
        layout: || PagedLayout::fp8_ds_mla(64).map(Layout::Paged),
        bar: None,
    },
    Family {
        name: "indexer-64",
        words: "indexer keys of 128 + 4 B, blocks of 64",
        layers: 61,
        layout: || PagedLayout::indexer_fp8(64).map(Layout::Paged),
        bar: None,
    },
    Family {
        name: "dense-16",
        words: "bf16 K and V of 8 heads of 128, blocks of 16",
        layers: 36,
        layout: || PagedLayout::dense(16, GQA).map(Layout::Paged),
        bar: None,
    },
    Family {
        name: "rows-16",
        words: "rows of 256 B, blocks of 16",
        layers: 61,
        layout: || PagedLayout::builder(16).segment("keys", 256).build().map(Layout::Paged),
        bar: None,
    },
    Family {
        name: "gdn",
        words: "GDN states",
        layers: 36,
        layout: || StateLayout::gdn(GDN, None).map(Layout::State),
        bar: None,
    },
];

const GQA: DenseShape = DenseShape {
    heads: 8,
    dim: 128,
    value_bytes: 2,
    order: HeadOrder::Nhd,
    regions: KvRegions::Packed,
    scales: KvScales::Outside,
};

const GDN: GdnShape = GdnShape { conv_dim: 8192, v_heads: 32, v_dim: 128, k_dim: 128, spec: 0, tp: 1 };

impl Family {
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        (self.layout)()
    }

    /// The family of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.name == name)
    }
}

/// All names, as `--only` takes them.
pub fn names() -> String {
    FAMILIES.map(|family| format!("`{}`", family.name)).join(", ")
}

impl Layout {
    /// So many bytes that are one piece: what an import is compared with.
    pub fn whole(bytes: u32) -> Result<Self, LayoutError> {
        StateLayout::new(&[StatePart::new("bytes", bytes)], None).map(Self::State)
    }

    pub fn page_bytes(&self) -> u64 {
        match self {
            Self::Paged(layout) => layout.page_bytes().get(),
            Self::State(layout) => layout.page_bytes().get(),
        }
    }

    /// Tokens of a block. A state has none: here one is counted for each.
    pub fn block_tokens(&self) -> u32 {
        match self {
            Self::Paged(layout) => u32::try_from(layout.block_tokens().get()).unwrap_or(u32::MAX),
            Self::State(_) => 1,
        }
    }
}
