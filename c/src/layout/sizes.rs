//! What can be asked of a layout.

use pagelift_bindings::keys::{AnyLayout, ByKind};

use super::{Kind, Layout, made};
use crate::foreign::Out;
use crate::status::{Failure, Status, answer};

/// Sizes of a layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LayoutFacts {
    /// sizeof(pagelift_layout_facts).
    pub size: u32,
    /// A pagelift_kind.
    pub kind: u32,
    /// Bytes of one layer's page: all regions, and the padding inside them.
    pub page_bytes: u64,
    /// Token slots of a page; of a ring its slots, of a state 1.
    pub block_tokens: u64,
    /// Tokens that share one row; 1 of rings and states.
    pub tokens_per_row: u64,
    /// Rows of a page; of a ring its slots, of a state 0, which has none.
    pub rows_per_block: u32,
    /// Regions of a page that have bases of their own.
    pub regions: u32,
    /// Bytes of the first region.
    pub region_bytes: u64,
}

/// Tells the sizes of a layout. Set `info->size` before.
///
/// Errors: PAGELIFT_WRONG_SIZE, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_layout_info(layout: Layout, info: Out<LayoutFacts>) -> Status {
    answer(|| {
        let info = info.sized("info")?;
        info.put_sized(layout.handle().look(|layout| Ok(info_of(layout)))?);
        Ok(())
    })
}

fn info_of(layout: &AnyLayout) -> LayoutFacts {
    let one = |kind: Kind, page_bytes, block_tokens, rows_per_block| LayoutFacts {
        size: 0,
        kind: kind as u32,
        page_bytes,
        block_tokens,
        tokens_per_row: 1,
        rows_per_block,
        regions: 1,
        region_bytes: page_bytes,
    };
    match layout {
        ByKind::Paged(layout) => LayoutFacts {
            tokens_per_row: layout.tokens_per_row().get(),
            regions: u32::try_from(layout.region_bytes().len()).unwrap_or(u32::MAX),
            region_bytes: layout.region_bytes().first().copied().unwrap_or_default(),
            ..one(
                Kind::Paged,
                layout.page_bytes().get(),
                layout.block_tokens().get(),
                layout.rows_per_block().get(),
            )
        },
        ByKind::Ring(layout) => {
            let slots = layout.slots().get();
            one(Kind::Ring, layout.page_bytes().get(), slots.into(), slots)
        }
        ByKind::State(layout) => one(Kind::State, layout.page_bytes().get(), 1, 0),
    }
}

/// Makes the same page, padded to `page_bytes` bytes (each of its regions, where it has several): a layout of its own.
///
/// Errors: PAGELIFT_LAYOUT where that is too small, PAGELIFT_WRONG_PLAN for a layout that is not paged, those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_paged_layout_padded_to(
    layout: Layout,
    page_bytes: u64,
    padded: Out<Layout>,
) -> Status {
    made(padded, || {
        layout.handle().look(|layout| match layout {
            ByKind::Paged(layout) => Ok(layout.clone().padded_to(page_bytes)?),
            _ => Err(Failure::new(
                Status::WrongPlan,
                "the layout is a ring's or a state's; expected a paged one",
            )),
        })
    })
}

/// Frees a layout.
///
/// Errors: those of handles.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_layout_free(layout: Layout) -> Status {
    answer(|| layout.handle().take().map(drop))
}
