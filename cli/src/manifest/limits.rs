//! What is too much. Each limit is far above any real import; together they keep arithmetic on checked manifests
//! within 64 bits, and the cost of checking one small.

/// Bytes of a manifest file.
pub const FILE_BYTES: u64 = 16 << 20;
/// Tokens of a prompt.
pub const PROMPT_TOKENS: u64 = 1 << 40;
/// Tokens of a block.
pub const BLOCK_TOKENS: u64 = 1 << 20;
/// Speculative tokens a step.
pub const SPECULATIVE_TOKENS: u64 = 1 << 10;
/// Layers of a pool or group.
pub const LAYERS: u64 = 1 << 16;
/// Blocks of a pool: ids are 32 bits wide in the tables, and −1 means 'none'.
pub const BLOCKS: u64 = 1 << 24;
/// Bytes of a page: one layer's part of one block.
pub const PAGE_BYTES: u64 = 1 << 30;
/// Bytes between two blocks of a pool that keeps blocks outermost.
pub const BLOCK_PADDING: u64 = 1 << 30;
/// Pools and groups of a manifest.
pub const ITEMS: u64 = 1 << 10;
/// Bytes of all pools and of the producer's side together.
pub const TOTAL_BYTES: u64 = 1 << 40;
