//! Which statuses the header names for each call.

use std::collections::{BTreeMap, BTreeSet};

use super::header::function;

/// What a header says of its calls: the names of statuses, without `PAGELIFT_`, by the names of calls, without `pagelift_`. A call that
/// answers 'as' another one has the other's too.
pub fn statuses(header: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut said: BTreeMap<&str, (BTreeSet<&str>, Vec<&str>)> = BTreeMap::new();
    let (mut comment, mut beside) = (BTreeSet::new(), Vec::new());
    let mut words = Vec::new();
    for line in header.lines() {
        if let Some(text) = line.strip_prefix("//") {
            words.extend(text.split([' ', ',', ';', '.', ':', '(', ')']).filter(|word| !word.is_empty()));
            continue;
        }
        if let Some(call) = function(line) {
            comment.extend(words.iter().filter_map(|word| word.strip_prefix("PAGELIFT_")));
            if words.windows(3).any(|words| words == ["those", "of", "keys"]) || words.contains(&"keys") {
                comment.insert("GEOMETRY");
            }
            beside.extend(words.windows(2).filter_map(|words| match words {
                ["as" | "As", other] => other.trim_matches('`').strip_prefix("pagelift_"),
                _ => None,
            }));
            said.insert(call, (std::mem::take(&mut comment), std::mem::take(&mut beside)));
        }
        words.clear();
    }
    said.keys().map(|call| (*call, all_of(call, &said))).collect()
}

/// Those of a call, and of the calls that it refers to.
fn all_of<'a>(
    call: &'a str,
    said: &BTreeMap<&'a str, (BTreeSet<&'a str>, Vec<&'a str>)>,
) -> BTreeSet<&'a str> {
    let (mut all, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![call]);
    while let Some(call) = next.pop() {
        let Some((own, beside)) = said.get(call).filter(|_| seen.insert(call)) else { continue };
        all.extend(own);
        next.extend(beside);
    }
    all
}

/// The same as the items of a table in C.
pub fn table(header: &str) -> String {
    let mut lines = String::new();
    for (call, statuses) in statuses(header) {
        for status in
            statuses.into_iter().filter(|status| header.contains(&format!("  PAGELIFT_{status} = ")))
        {
            lines.push_str(&format!("{{\"{call}\", PAGELIFT_{status}}},\n"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_own_statuses_and_those_of_the_calls_that_they_name() {
        let header = "\
enum pagelift_status {\n  PAGELIFT_PLAN = 400,\n  PAGELIFT_LAUNCH = 700,\n  PAGELIFT_GEOMETRY = 300,\n};\n\n\
// Does something with PAGELIFT_UNCOUNTED.\n//\n// Errors: PAGELIFT_PLAN where it cannot; those of handles and keys.\n\
pagelift_status pagelift_first(uint32_t number,\n                               uint32_t other);\n\n\
// Errors: PAGELIFT_LAUNCH, and as `pagelift_first`.\npagelift_status pagelift_second(void);\n\n\
// Of no call: PAGELIFT_PLAN.\n\n// Nothing.\npagelift_status pagelift_third(void);\n";
        let expected = "\
{\"first\", PAGELIFT_GEOMETRY},\n{\"first\", PAGELIFT_PLAN},\n{\"second\", PAGELIFT_GEOMETRY},\n\
{\"second\", PAGELIFT_LAUNCH},\n{\"second\", PAGELIFT_PLAN},\n";
        assert_eq!(table(header), expected);
    }
}
