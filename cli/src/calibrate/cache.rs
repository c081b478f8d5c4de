//! Where calibrations are kept: a file for each GPU, in the user's folder for what can be made again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::record::{Gpu, Record};

/// A calibration that cannot be kept.
#[derive(Debug, Error)]
#[error("the calibration was measured, but cannot be kept in {}: {cause}", file.display())]
pub struct CacheError {
    file: PathBuf,
    cause: std::io::Error,
}

/// The file of a GPU, where the environment names a folder.
pub fn file(uuid: &str) -> Option<PathBuf> {
    let folder = folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))?;
    Some(folder.join(format!("calibration-{uuid}.json")))
}

/// `$XDG_CACHE_HOME/pagelift`, or `~/.cache/pagelift`. A relative path is none, as the standard says.
fn folder(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let cache = cache.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))?;
    Some(cache.join("pagelift"))
}

/// What a file says, where it is of this GPU, link, driver and program.
pub fn read(file: &Path, gpu: &Gpu) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(record).filter(|record| record.gpu == *gpu)
}

/// Keeps a calibration. A reader meanwhile sees the old one or the new one.
pub fn write(file: &Path, record: &Record) -> Result<(), CacheError> {
    let failed = |cause| CacheError { file: file.into(), cause };
    let text = serde_json::to_string_pretty(record).map_err(|error| failed(error.into()))?;
    let made = file.with_extension(format!("{}.new", std::process::id()));
    let written = file
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&made, text + "\n"))
        .and_then(|()| fs::rename(&made, file));
    written.map_err(|cause| {
        let _ = fs::remove_file(&made);
        failed(cause)
    })
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use pagelift::backends::Pace;

    fn gpu() -> Gpu {
        Gpu {
            version: "0.1.0".into(),
            kernels: "0x0123456789abcdef".into(),
            device: "NVIDIA H200".into(),
            uuid: "GPU-00000000-1111-2222-3333-444444444444".into(),
            link: Some("PCIe gen 5 x16".into()),
            driver: "13.0".into(),
            multiprocessors: 132,
        }
    }

    fn record() -> Record {
        let paces = [1, 2, 3, 4, 5, 6].map(|number| Pace {
            workers: NonZeroU32::new(number).unwrap(),
            bytes_per_second: NonZeroU64::new(u64::from(number) << 40).unwrap(),
        });
        Record::new(gpu(), 1_800_000_000, &paces)
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not/there/yet.json");
        assert_eq!(read(&file, &gpu()), None);
        write(&file, &record()).unwrap();
        write(&file, &record()).unwrap();
        let found = read(&file, &gpu()).unwrap();
        assert_eq!(found, record());
        assert_eq!(found.calibration().device_to_host.rows.workers.get(), 4);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn what_was_measured_of_something_else_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one.json");
        write(&file, &record()).unwrap();
        let others = [
            Gpu { version: "0.2.0".into(), ..gpu() },
            Gpu { kernels: "0x0123456789abcdee".into(), ..gpu() },
            Gpu { device: "another".into(), ..gpu() },
            Gpu { uuid: "another".into(), ..gpu() },
            Gpu { link: Some("PCIe gen 5 x8".into()), ..gpu() },
            Gpu { link: None, ..gpu() },
            Gpu { driver: "13.1".into(), ..gpu() },
            Gpu { multiprocessors: 66, ..gpu() },
        ];
        for other in others {
            assert_eq!(read(&file, &other), None, "{other:?}");
        }
        let text = fs::read_to_string(&file).unwrap();
        for wrong in [text.replace("\"workers\": 1,", "\"workers\": 0,"), text[..40].into(), String::new()] {
            fs::write(&file, wrong).unwrap();
            assert_eq!(read(&file, &gpu()), None);
        }
    }

    #[test]
    fn the_folder_is_the_users() {
        let folder =
            |cache: Option<&str>, home: Option<&str>| folder(cache.map(Into::into), home.map(Into::into));
        assert_eq!(folder(Some("/c"), Some("/h")), Some("/c/pagelift".into()));
        assert_eq!(folder(None, Some("/h")), Some("/h/.cache/pagelift".into()));
        assert_eq!(folder(Some("c"), Some("/h")), Some("/h/.cache/pagelift".into()));
        assert_eq!(folder(Some(""), None), None);
    }

    /// The fields are those that docs/json.md says.
    #[test]
    fn every_field_is_documented() {
        let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap();
        let section = docs.split("\n## ").find(|section| section.starts_with("calibrate\n")).unwrap();
        let rows =
            section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        let mut documented: Vec<&str> = rows.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
        let report = super::super::Report { file: None, cached: false, record: record() };
        let object = serde_json::to_value(report).unwrap();
        let mut fields: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        documented.sort_unstable();
        fields.sort_unstable();
        assert_eq!(fields, documented);
    }
}
