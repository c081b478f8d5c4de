//! What is too much. Each limit is far above any real import; together they keep arithmetic on checked manifests
//! within 64 bits, and keep whatever passes them to work that ends soon.

/// Bytes of a manifest file.
pub const FILE_BYTES: u64 = 16 << 20;
/// Characters of a name.
pub const NAME: usize = 256;
/// Tokens of a prompt.
pub const PROMPT_TOKENS: u64 = 1 << 40;
/// Tokens of a block.
pub const BLOCK_TOKENS: u64 = 1 << 20;
/// Pages of a block, or blocks of a page: each pair is a job of its own.
pub const PARTS: u32 = 256;
/// Ranks that heads are split over.
pub const TENSOR_PARALLEL: u64 = 1 << 10;
/// Speculative tokens a step.
pub const SPECULATIVE_TOKENS: u64 = 1 << 10;
/// Layers of a pool or group.
pub const LAYERS: u64 = 1 << 16;
/// Blocks of a pool: ids are 32 bits wide in the tables, and −1 means 'none'.
pub const BLOCKS: u64 = 1 << 20;
/// Extents of all pools together: each is an allocation of its own.
pub const EXTENTS: u64 = 1 << 14;
/// Pages of all pools together, one a layer and block: each is compared on its own.
pub const PAGES: u64 = 1 << 24;
/// Bytes of a page: one layer's part of one block.
pub const PAGE_BYTES: u64 = 1 << 30;
/// Bytes between two blocks of a pool that keeps blocks outermost.
pub const BLOCK_PADDING: u64 = 1 << 30;
/// Bytes between two rows.
pub const ROW_PADDING: u64 = 1 << 30;
/// Pools or groups of a manifest.
pub const ITEMS: u64 = 1 << 10;
/// Segments of a layout, or parts of a state.
pub const SEGMENTS: u64 = 1 << 10;
/// Heads, dimensions and widths of a layout.
pub const DIMENSION: u64 = 1 << 20;
/// Taps of a convolution.
pub const CONV_KERNEL: u64 = 1 << 10;
/// Rows of all segments, layers and blocks of the import: each has contents of its own.
pub const ROWS: u64 = 1 << 26;
/// Layers and extents of all groups, multiplied: each pair has an address in the geometry's tables.
pub const ADDRESSES: u64 = 1 << 20;
/// Bytes of all pools together.
pub const TOTAL_BYTES: u64 = 1 << 40;
