//! How many rows and bytes stand behind a layout's name.

use super::error::{At, Located, Problem, divide};
use super::format::{KvRegions, LayoutSpec, Scales};
use super::limits;

/// What the rows of a page stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// One row for so many tokens, in pages of the block's tokens.
    Tokens {
        /// Tokens of a row; at least 1.
        tokens_per_row: u32,
    },
    /// One page a request; the row of a token is `position % rows`.
    Ring,
    /// One page a request that is copied whole or not at all: each segment is one part, with one row.
    State,
}

impl Family {
    /// What the library calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens { .. } => "paged",
            Self::Ring => "ring",
            Self::State => "state",
        }
    }
}

/// A run of equally spaced rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// For messages.
    pub name: String,
    /// Bytes of a row, without padding; at least 1.
    pub row_bytes: u32,
    /// What it is; its place in a page follows from that, and from how a side keeps it.
    pub part: Part,
}

/// What a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A plane: its rows follow all rows of the segments before it.
    Plane {
        /// Bytes of one row of each of those.
        bytes_before: u64,
    },
    /// The values of one head of a dense cache.
    Head {
        /// 0 for K, 1 for V.
        tensor: u32,
        /// The head of this rank.
        head: u32,
        /// What the cache consists of.
        dense: Dense,
    },
    /// The scales of all heads of K or of V, after all values that lie with them.
    Scales {
        /// 0 for K, 1 for V.
        tensor: u32,
        /// What the cache consists of.
        dense: Dense,
    },
}

/// The heads of a dense cache, K and V alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dense {
    /// Heads of this rank.
    pub heads: u32,
    /// Bytes of the values of one head of one token.
    pub head_bytes: u32,
}

/// What a page holds, wherever it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What a row stands for.
    pub family: Family,
    /// Whether a token must not be absorbed twice.
    pub recurrent: bool,
    /// Rows of each segment in a block of the manifest's `block_tokens`; at least 1.
    pub rows: u32,
    /// The segments; at least one.
    pub segments: Vec<Segment>,
    /// Pages are rounded up to a multiple of so many bytes; 1 where they are not.
    pub page_multiple: u32,
}

impl Shape {
    /// Rows of a page of so many tokens, or `None` where a row has other than a share of them.
    #[must_use]
    pub fn rows_of(&self, tokens: u32) -> Option<u32> {
        match self.family {
            Family::Tokens { tokens_per_row } => {
                tokens.is_multiple_of(tokens_per_row).then(|| tokens / tokens_per_row)
            }
            Family::Ring | Family::State => Some(self.rows),
        }
    }

    /// Bytes of so many rows of all segments, without any padding.
    #[must_use]
    pub fn content_bytes(&self, rows: u32) -> u64 {
        self.padded_bytes(rows, 0)
    }

    /// Bytes that a page of so many rows needs in a pool, when `row_padding` bytes follow every row: of one of its
    /// regions, where it has two.
    #[must_use]
    pub fn page_bytes(&self, rows: u32, row_padding: u32, regions: KvRegions) -> u64 {
        // K and V are of one size.
        let bytes = self.padded_bytes(rows, row_padding) / u64::from(regions.count());
        bytes.checked_next_multiple_of(self.page_multiple.into()).unwrap_or(u64::MAX)
    }

    /// Whether K and V of each head are kept apart.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        !self.segments.iter().any(|segment| matches!(segment.part, Part::Plane { .. }))
    }

    fn padded_bytes(&self, rows: u32, row_padding: u32) -> u64 {
        let rows = u64::from(rows);
        let row = |segment: &Segment| u64::from(segment.row_bytes).saturating_add(u64::from(row_padding));
        self.segments.iter().fold(0, |sum, segment| rows.saturating_mul(row(segment)).saturating_add(sum))
    }
}

/// What of a manifest decides shapes besides the layout.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    pub block_tokens: u32,
    pub tensor_parallel: u32,
    pub speculative_tokens: u32,
}

/// A shape's segments before their sizes are checked.
type Sized = Vec<(String, Option<u64>)>;

impl LayoutSpec {
    /// The shape of a page of this layout, which stands at `place`.
    pub fn shape(&self, context: Context, place: &str) -> Result<Shape, Located> {
        let at = |field: &str| format!("{place}.{field}");
        let on_rank = |what: &'static str, field: &str, dimension: Option<u64>| {
            let rank = |value| divide(what, value, "`tensor_parallel`", context.tensor_parallel.into());
            dimension.map(rank).transpose().at(if field.is_empty() { place.to_owned() } else { at(field) })
        };
        // At most the heads of all ranks, which have 32 bits.
        let heads = |all: u32| {
            let heads = on_rank("`kv_heads`", "kv_heads", Some(all.into()))?;
            Ok(heads.and_then(|heads| u32::try_from(heads).ok()).unwrap_or(0))
        };
        let state = |recurrent, parts: Sized| shape(Family::State, recurrent, 1, parts).at(place);
        let tokens = |tokens_per_row: u32, field: &str, segments: Sized| {
            let (block, row) = (context.block_tokens.into(), u64::from(tokens_per_row));
            let what = if field.is_empty() { "the layout's tokens a row" } else { "`tokens_per_row`" };
            let rows = divide("`block_tokens`", block, what, row);
            let rows = rows.at(if field.is_empty() { place.to_owned() } else { at(field) })?;
            // Not more than the tokens of a block, which have 32 bits.
            let rows = u32::try_from(rows).unwrap_or(u32::MAX);
            shape(Family::Tokens { tokens_per_row }, false, rows, segments).at(place)
        };
        match self {
            Self::MlaBf16 => tokens(1, "", vec![named("latent", BF16 * (512 + 64))]),
            // 512 e4m3, four fp32 scales, 64 bf16.
            Self::Fp8DsMla => tokens(1, "", vec![named("latent", 512 + 4 * FP32 + 64 * BF16)]),
            Self::IndexerFp8 => tokens(1, "", vec![named("key", 128), named("scale", FP32)]),
            Self::IndexerMxfp4 => tokens(1, "", vec![named("key", 64), named("scale", 4)]),
            // 448 e4m3 and 64 bf16; seven exponents and a byte that is unused.
            Self::DeepseekV4 { page_multiple } => {
                let segments = vec![named("latent", 448 + 64 * BF16), named("exponent", 7 + 1)];
                Ok(Shape { page_multiple: *page_multiple, ..tokens(1, "", segments)? })
            }
            Self::DeepseekV41 => {
                let segments = vec![named("latent", 512), named("exponent", 16)];
                Ok(Shape { page_multiple: 512, ..tokens(1, "", segments)? })
            }
            Self::QsaMainBf16 { kv_heads } => {
                let head = |head| named(&format!("head{head}"), BF16 * 2 * 256);
                tokens(1, "", (0..heads(*kv_heads)?).map(head).collect())
            }
            Self::QsaMainFp8 { kv_heads } => {
                let head = |head| named(&format!("head{head}"), 2 * 256);
                tokens(1, "", (0..heads(*kv_heads)?).map(head).collect())
            }
            Self::QsaCompressedBf16 => tokens(4, "", vec![named("key", BF16 * 128)]),
            Self::QsaCompressedFp8 { width } => tokens(4, "", vec![named("key", (*width).into())]),
            Self::Dense { kv_heads, head_dim, element_bytes, scales } => {
                // Both are bounded far below 32 bits.
                let head_bytes = head_dim.saturating_mul(*element_bytes);
                let dense = Dense { heads: heads(*kv_heads)?, head_bytes };
                let (names, parts): (Vec<_>, Vec<_>) = dense.segments(*scales).unzip();
                let mut shape = tokens(1, "", names)?;
                shape.segments.iter_mut().zip(parts).for_each(|(segment, part)| segment.part = part);
                Ok(shape)
            }
            Self::Ring { slot_bytes } => {
                let rows = ring_rows(context).at(place)?;
                shape(Family::Ring, false, rows, vec![named("slot", (*slot_bytes).into())]).at(place)
            }
            Self::Gdn { v_heads, k_heads, v_dim, k_dim, conv_kernel } => {
                let keys = product([2, *k_heads, *k_dim]);
                let width = sum(keys, product([*v_heads, *v_dim]));
                let width = on_rank("the convolution's width", "", width)?;
                let conv = conv_state(width, *conv_kernel, context);
                let heads = on_rank("`v_heads`", "v_heads", Some((*v_heads).into()))?;
                let temporal = times(times(times(heads, *v_dim), *k_dim), FP32 as u32);
                state(true, vec![("conv".into(), conv), ("temporal".into(), temporal)])
            }
            Self::Ssm { heads, head_dim, groups, state: state_dim, conv_kernel } => {
                let inner = product([*heads, *head_dim]);
                let width = sum(inner, product([2, *groups, *state_dim]));
                let width = on_rank("the convolution's width", "", width)?;
                let conv = conv_state(width, *conv_kernel, context);
                let heads = on_rank("`heads`", "heads", Some((*heads).into()))?;
                let ssm = times(times(times(heads, *head_dim), *state_dim), FP32 as u32);
                state(true, vec![("conv".into(), conv), ("ssm".into(), ssm)])
            }
            Self::Ple { conv_kernel, ngram, hidden, hc } => {
                // The whole of it lies on every rank.
                let taps = product([conv_kernel.saturating_sub(1), *ngram]);
                let length = sum(taps, Some(context.speculative_tokens.into()));
                let bytes = times(times(times(length, *hidden), *hc), BF16 as u32);
                state(true, vec![("conv".into(), bytes)])
            }
            Self::Segments { tokens_per_row, segments } => {
                let named = segments.iter().map(|segment| named(&segment.name, segment.row_bytes.into()));
                tokens(*tokens_per_row, "tokens_per_row", named.collect())
            }
            Self::State { recurrent, parts } => {
                state(*recurrent, parts.iter().map(|part| named(&part.name, part.bytes.into())).collect())
            }
        }
    }
}

impl Dense {
    /// The segments with what they are: K head by head, V head by head, and their scales.
    fn segments(self, scales: Scales) -> impl Iterator<Item = ((String, Option<u64>), Part)> {
        const TENSORS: [(u32, &str); 2] = [(0, "k"), (1, "v")];
        let heads = TENSORS.into_iter().flat_map(move |(tensor, name)| {
            (0..self.heads).map(move |head| {
                let segment = named(&format!("{name}.{head}"), self.head_bytes.into());
                (segment, Part::Head { tensor, head, dense: self })
            })
        });
        let scaled = TENSORS.into_iter().filter(move |_| scales == Scales::PerTokenHead);
        let scales = scaled.map(move |(tensor, name)| {
            let segment = named(&format!("{name}.scale"), FP32 * u64::from(self.heads));
            (segment, Part::Scales { tensor, dense: self })
        });
        heads.chain(scales)
    }
}

const BF16: u64 = 2;
const FP32: u64 = 4;

fn named(name: &str, bytes: u64) -> (String, Option<u64>) {
    (name.to_owned(), Some(bytes))
}

fn product<const N: usize>(factors: [u32; N]) -> Option<u64> {
    factors.into_iter().try_fold(1, |product: u64, factor| product.checked_mul(factor.into()))
}

fn times(value: Option<u64>, factor: u32) -> Option<u64> {
    value?.checked_mul(factor.into())
}

fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    left?.checked_add(right?)
}

/// `(kernel − 1 + spec, width)` bf16.
fn conv_state(width: Option<u64>, kernel: u32, context: Context) -> Option<u64> {
    let length = kernel.saturating_sub(1).checked_add(context.speculative_tokens)?;
    times(times(width, length), BF16 as u32)
}

/// The smallest multiple of 4 that holds an open group of 4 tokens and the drafts after it, and divides the block.
fn ring_rows(context: Context) -> Result<u32, Problem> {
    let Context { block_tokens, speculative_tokens, .. } = context;
    let least = speculative_tokens.saturating_add(4);
    let fits = |rows: &u32| block_tokens.is_multiple_of(*rows);
    let multiples = (least.next_multiple_of(4)..=block_tokens).step_by(4);
    multiples.into_iter().find(fits).ok_or(Problem::NoRing { least, block_tokens })
}

fn shape(family: Family, recurrent: bool, rows: u32, segments: Sized) -> Result<Shape, Problem> {
    let mut bytes_before = 0;
    let segments = segments.into_iter().map(|(name, bytes)| {
        let fits = bytes.filter(|bytes| (1..=limits::PAGE_BYTES).contains(bytes));
        match fits.and_then(|bytes| u32::try_from(bytes).ok()) {
            Some(row_bytes) => {
                let segment = Segment { name, row_bytes, part: Part::Plane { bytes_before } };
                bytes_before += u64::from(row_bytes);
                Ok(segment)
            }
            None => {
                let bytes = bytes.map_or_else(|| "over 2^64".to_owned(), |bytes| bytes.to_string());
                Err(Problem::PartBytes { part: name, bytes, high: limits::PAGE_BYTES })
            }
        }
    });
    let segments = segments.collect::<Result<_, Problem>>()?;
    Ok(Shape { family, recurrent, rows, segments, page_multiple: 1 })
}

#[cfg(test)]
mod tests {
    use super::{Context, Family, LayoutSpec, Shape};
    use crate::manifest::error::{Located, Problem};

    const PLAIN: Context = Context { block_tokens: 128, tensor_parallel: 1, speculative_tokens: 0 };

    fn shape(json: &str, context: Context) -> Result<Shape, Problem> {
        let spec = LayoutSpec::read(&serde_json::from_str(json).unwrap(), "layout".into());
        spec.and_then(|spec| spec.shape(context, "layout")).map_err(|Located { problem, .. }| problem)
    }

    fn parts(json: &str, context: Context) -> Vec<u32> {
        shape(json, context).unwrap().segments.iter().map(|segment| segment.row_bytes).collect()
    }

    #[test]
    fn mla_page_of_128_tokens() {
        let shape = shape(r#"{"kind": "mla-bf16"}"#, PLAIN).unwrap();
        assert_eq!(shape.content_bytes(shape.rows), 147_456);
        assert_eq!(61 * shape.content_bytes(shape.rows), 8_994_816);
    }

    #[test]
    fn deepseek_v32_pages_of_64_tokens() {
        let context = Context { block_tokens: 64, ..PLAIN };
        let main = shape(r#"{"kind": "fp8-ds-mla"}"#, context).unwrap();
        let indexer = shape(r#"{"kind": "indexer-fp8"}"#, context).unwrap();
        assert_eq!((main.content_bytes(main.rows), indexer.content_bytes(indexer.rows)), (41_984, 8_448));
        assert_eq!(61 * (main.content_bytes(main.rows) + indexer.content_bytes(indexer.rows)), 3_076_352);
        assert_eq!(501 * 61 * indexer.content_bytes(indexer.rows), 258_179_328);
    }

    const GDN: &str = r#"{"kind": "gdn", "v_heads": 48, "k_heads": 16, "v_dim": 128, "k_dim": 128}"#;

    #[test]
    fn gdn_page_at_tp_1_and_2() {
        let context = Context { block_tokens: 1600, tensor_parallel: 1, speculative_tokens: 2 };
        assert_eq!(parts(GDN, context), [102_400, 3_145_728]);
        let context = Context { tensor_parallel: 2, ..context };
        assert_eq!(parts(GDN, context), [51_200, 1_572_864]);
        assert_eq!(shape(GDN, context).unwrap().content_bytes(1), 1_624_064);
        assert!(shape(GDN, context).unwrap().recurrent);
    }

    #[test]
    fn ssm_and_ple_follow_their_formulas() {
        let ssm =
            r#"{"kind": "ssm", "heads": 8, "head_dim": 64, "groups": 2, "state": 16, "conv_kernel": 4}"#;
        let context = Context { tensor_parallel: 2, speculative_tokens: 1, ..PLAIN };
        assert_eq!(parts(ssm, context), [4 * (512 + 64) / 2 * 2, 4 * 64 * 16 * 4]);
        let ple = r#"{"kind": "ple", "conv_kernel": 4, "ngram": 3, "hidden": 256, "hc": 4}"#;
        assert_eq!(parts(ple, context), [(3 * 3 + 1) * 256 * 4 * 2]);
    }

    #[test]
    fn qsa_rows_at_tp_2() {
        let context = Context { block_tokens: 1600, tensor_parallel: 2, speculative_tokens: 2 };
        assert_eq!(parts(r#"{"kind": "qsa-main-bf16", "kv_heads": 2}"#, context), [1024]);
        let keys = shape(r#"{"kind": "qsa-compressed-bf16"}"#, context).unwrap();
        assert_eq!((keys.rows, keys.content_bytes(keys.rows)), (400, 102_400));
        assert_eq!(keys.family, Family::Tokens { tokens_per_row: 4 });
    }

    #[test]
    fn rings_take_the_smallest_size_that_divides_the_block() {
        let rows = |block_tokens, speculative_tokens| {
            let context = Context { block_tokens, speculative_tokens, ..PLAIN };
            shape(r#"{"kind": "ring"}"#, context).map(|shape| shape.rows)
        };
        assert_eq!(rows(1600, 0), Ok(4));
        assert_eq!(rows(1600, 2), Ok(8));
        assert_eq!(rows(1600, 5), Ok(16));
        assert_eq!(rows(48, 5), Ok(12));
        assert_eq!(rows(4, 1), Err(Problem::NoRing { least: 5, block_tokens: 4 }));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        for huge in [
            r#"{"kind": "gdn", "v_heads": 1048576, "k_heads": 1, "v_dim": 1048576, "k_dim": 1048576}"#,
            r#"{"kind": "gdn", "v_heads": 4294967295, "k_heads": 1, "v_dim": 1, "k_dim": 1}"#,
            r#"{"kind": "ple", "conv_kernel": 1024, "ngram": 1048576, "hidden": 1048576, "hc": 1048576}"#,
            r#"{"kind": "segments", "tokens_per_row": 1, "segments": [{"name": "kv", "row_bytes": 4294967295}]}"#,
        ] {
            assert!(shape(huge, PLAIN).is_err(), "{huge}");
        }
    }
}
