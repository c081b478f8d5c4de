//! Random geometries: all verify, and any wrong byte shows.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MODES, parse, run};
use crate::reference::error::{Mismatch, ReferenceError};

/// A random geometry of one token group, with matching and differing sides.
fn geometries() -> impl Strategy<Value = Value> {
    let segments = proptest::collection::vec(1..40_u32, 1..4);
    let side = (any::<bool>(), 0..3_u32, any::<bool>(), 0..5_u32, 0..9_u64, 0..30_u64, 1..4_u32);
    (segments, 1..4_u32, 0..4_u32, 1..70_u64, side.clone(), side, any::<bool>()).prop_map(
        |(rows, layers, shift, prompt, host, device, all)| {
            let block = 4_u32 << shift;
            let pool = |name: &str, (blocks_outermost, first, _, row_padding, slack, block_padding, extents)| {
                let (blocks_outermost, slack, block_padding): (bool, u64, u64) =
                    (blocks_outermost, slack, block_padding);
                let row_padding: u32 = row_padding;
                let used: u64 =
                    rows.iter().map(|row| u64::from(block) / 2 * u64::from(row + row_padding)).sum();
                json!({
                    "name": name, "memory": name,
                    "order": if blocks_outermost { "blocks-outermost" } else { "layers-outermost" },
                    "layers": layers + first + 1, "blocks": 20 * extents, "blocks_per_extent": 20,
                    "page_bytes": used + slack,
                    "block_padding": if blocks_outermost { block_padding } else { 0 },
                })
            };
            let side = |name: &str, (_, first, reversed, row_padding, ..): (bool, u32, bool, u32, u64, u64, u32)| {
                json!({
                    "pool": name, "first_layer": first, "row_padding": row_padding,
                    "layer_order": if reversed { "reversed" } else { "forward" },
                    "blocks": { "scattered": { "seed": first } },
                })
            };
            let named = |row_bytes| json!({ "name": "s", "row_bytes": row_bytes });
            let segments: Vec<Value> = rows.iter().map(named).collect();
            json!({
                "version": 1, "model": "m", "prompt_tokens": prompt, "block_tokens": block,
                "pools": [pool("host", host), pool("device", device)],
                "groups": [{
                    "name": "g", "layers": layers, "landing": "host", "lift": if all { "all" } else { "tail" },
                    "mirror": true,
                    "layout": { "kind": "segments", "tokens_per_row": 2, "segments": segments },
                    "host": side("host", host), "device": side("device", device),
                }],
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_geometries_verify_and_show_any_wrong_byte(
        json in geometries(),
        mode in 0..3_usize,
        steps in 0..9_u64,
        at in any::<proptest::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let manifest = parse(&json);
        let (mut pools, model) = run(&manifest, steps, MODES[mode]);
        let footprint = manifest.footprint();
        prop_assert_eq!(pools.verify(&manifest, &model).unwrap(), footprint.host + footprint.device);
        let mut extents: Vec<&mut Vec<u8>> = pools.0.iter_mut().flatten().collect();
        let extent = at.index(extents.len());
        let offset = at.index(extents[extent].len());
        extents[extent][offset] ^= flip;
        match pools.verify(&manifest, &model) {
            Err(ReferenceError::Mismatch(found)) => {
                let Mismatch { offset: found_at, expected, found, .. } = *found;
                prop_assert_eq!((found_at, expected ^ found), (offset as u64, flip));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
