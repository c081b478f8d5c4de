//! Files and text that are no manifest.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{parse, read, shipped_file};
use crate::manifest::{Manifest, ManifestError};

#[test]
fn unreadable_and_oversized_files() {
    let text = Manifest::load("/no/such/manifest.json").unwrap_err().to_string();
    assert!(text.starts_with("cannot read the manifest /no/such/manifest.json: "), "{text}");
    let text = Manifest::load(env!("CARGO_MANIFEST_DIR")).unwrap_err().to_string();
    assert!(text.ends_with("it is a folder, not a regular file"), "{text}");
    let path = std::env::temp_dir().join(format!("pagelift-oversized-{}.json", std::process::id()));
    std::fs::write(&path, vec![b' '; (16 << 20) + 1]).unwrap();
    let result = Manifest::load(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(result, Err(ManifestError::TooLarge { .. })));
}

#[test]
fn text_that_is_not_plain_utf_8_is_named() {
    let text = std::fs::read_to_string(shipped_file("small/aligned.json")).unwrap();
    let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert!(error(format!("\u{feff}{text}").as_bytes()).contains("byte-order mark"));
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(error(&[&[0xff, 0xfe], wide.as_slice()].concat()).contains("expected UTF-8, but byte 0 is none"));
    let long = error(format!("{{\"version\": 1, \"{}\": 1}}", "x".repeat(1000)).as_bytes());
    assert!(long.len() < 400, "{long}");
}

#[test]
fn trailing_and_repeated_text_is_refused() {
    let text = std::fs::read_to_string(shipped_file("small/aligned.json")).unwrap();
    assert!(
        parse(format!("{text} {{}}").as_bytes()).unwrap_err().to_string().contains("trailing characters")
    );
    for other in ["# Not a manifest", "", "{\"version\": }"] {
        let error = parse(other.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("not JSON: ") && error.contains("at line 1 column"), "{error}");
    }
    let twice = text.replacen("\"version\": 1,", "\"version\": 1, \"version\": 1,", 1);
    assert!(
        parse(twice.as_bytes())
            .unwrap_err()
            .to_string()
            .contains("at the top level: the field `version` is written twice")
    );
    let inner = text.replacen("\"memory\": ", "\"name\": \"x\", \"memory\": ", 1);
    let error = parse(inner.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("at pools[0]") && error.contains("the field `name` is written twice"), "{error}");
    let deep = "[".repeat(1 << 20);
    assert!(parse(deep.as_bytes()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn truncations_are_refused(part in 0.0..1.0_f64) {
        let text = std::fs::read(shipped_file("small/hybrid.json")).unwrap();
        // All but the final newline is needed.
        let end = ((text.len() - 1) as f64 * part) as usize;
        prop_assert!(parse(&text[..end]).is_err());
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn damaged_manifests_never_panic(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut text = std::fs::read(shipped_file("small/hybrid.json")).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = parse(&text);
    }

    #[test]
    fn random_numbers_never_panic(
        at in any::<proptest::sample::Index>(),
        number in prop_oneof![0..40_u64, any::<u32>().prop_map(u64::from), any::<u64>()],
    ) {
        let mut json = read("small/hybrid.json");
        let mut numbers = Vec::new();
        collect_numbers(&mut json, &mut numbers);
        let at = at.index(numbers.len());
        *numbers.swap_remove(at) = json!(number);
        drop(numbers);
        let _ = parse(json.to_string().as_bytes());
    }
}

fn collect_numbers<'v>(value: &'v mut Value, numbers: &mut Vec<&'v mut Value>) {
    match value {
        Value::Number(_) => numbers.push(value),
        Value::Array(items) => items.iter_mut().for_each(|item| collect_numbers(item, numbers)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, item)| collect_numbers(item, numbers)),
        _ => {}
    }
}
