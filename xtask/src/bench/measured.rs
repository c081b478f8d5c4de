//! What criterion measured.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub group: String,
    pub name: String,
    /// Nanoseconds of one iteration.
    pub median: f64,
    /// The median's 95 % confidence interval.
    pub interval: [f64; 2],
    /// Elements or bytes of one iteration.
    pub amount: Option<u64>,
}

/// criterion's `benchmark.json`.
#[derive(Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: Option<String>,
    value_str: Option<String>,
    throughput: Option<Throughput>,
}

#[derive(Deserialize)]
enum Throughput {
    Elements(u64),
    Bytes(u64),
}

/// criterion's `estimates.json`.
#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    confidence_interval: Interval,
    point_estimate: f64,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

/// All measurements below criterion's folder, sorted by group and name.
pub fn read(folder: &Path) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for entry in WalkDir::new(folder) {
        let entry = entry.context("could not read what was measured; run the benches first")?;
        if entry.path().ends_with("new/benchmark.json") {
            let benchmark: Benchmark = parse(entry.path())?;
            let estimates: Estimates = parse(&entry.path().with_file_name("estimates.json"))?;
            measured.push(Measured {
                group: benchmark.group_id,
                name: benchmark.function_id.or(benchmark.value_str).unwrap_or_default(),
                median: estimates.median.point_estimate,
                interval: [
                    estimates.median.confidence_interval.lower_bound,
                    estimates.median.confidence_interval.upper_bound,
                ],
                amount: benchmark
                    .throughput
                    .map(|(Throughput::Elements(amount) | Throughput::Bytes(amount))| amount),
            });
        }
    }
    if measured.is_empty() {
        bail!("nothing was measured in {}; run `cargo xtask bench` without --last", folder.display());
    }
    measured.sort_by(|a, b| (&a.group, a.amount, &a.name).cmp(&(&b.group, b.amount, &b.name)));
    Ok(measured)
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what criterion writes", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criterions_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a group/a name/new");
        fs::create_dir_all(&new).unwrap();
        let benchmark =
            r#"{"group_id":"a group","function_id":null,"value_str":"12 jobs","throughput":{"Elements":12}}"#;
        fs::write(new.join("benchmark.json"), benchmark).unwrap();
        let estimate =
            r#"{"confidence_interval":{"lower_bound":1.5,"upper_bound":2.5},"point_estimate":2.0}"#;
        fs::write(new.join("estimates.json"), format!(r#"{{"median":{estimate}}}"#)).unwrap();
        let measured = read(folder.path()).unwrap();
        assert_eq!(measured.len(), 1);
        let only = &measured[0];
        assert_eq!((only.group.as_str(), only.name.as_str(), only.amount), ("a group", "12 jobs", Some(12)));
        assert_eq!((only.median, only.interval), (2.0, [1.5, 2.5]));
    }

    #[test]
    fn an_empty_folder_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("cargo xtask bench"), "{error}");
    }
}
