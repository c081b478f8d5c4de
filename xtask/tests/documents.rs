//! Documents that name things of the sources.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::fs;
use std::path::Path;

use toml_edit::DocumentMut;
use walkdir::WalkDir;

/// Every function of the sources, each between two line breaks.
fn functions(root: &Path) -> String {
    let mut names = String::from("\n");
    let hidden = |name: &str| name == "target" || name.starts_with('.');
    let files = WalkDir::new(root).into_iter();
    let files = files.filter_entry(|entry| !entry.file_name().to_str().is_some_and(hidden));
    for file in files.map(|entry| entry.unwrap().into_path()) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            for line in fs::read_to_string(&file).unwrap().lines() {
                let line = line.trim_start().trim_start_matches("pub ");
                if let Some(rest) = line.strip_prefix("fn ") {
                    names.push_str(rest.split(['(', '<']).next().unwrap());
                    names.push('\n');
                }
            }
        }
    }
    names
}

#[test]
fn tests_that_the_documentation_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let names = functions(&root);
    let mut found = 0;
    // What stands in backquotes, and is no path.
    for word in text.split('`').skip(1).step_by(2) {
        if !word.contains('_') || word.contains(['/', '.', ' ']) {
            continue;
        }
        let wanted = match word.strip_suffix('…') {
            Some(beginning) => format!("\n{beginning}"),
            None => format!("\n{word}\n"),
        };
        assert!(names.contains(&wanted), "docs/testing.md names `{word}`, which is not there");
        found += 1;
    }
    assert!(found > 40, "only {found} names");
}

#[test]
fn every_dependency_has_its_reason_in_the_design() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let design = fs::read_to_string(root.join("DESIGN.md")).unwrap();
    let (_, section) = design.split_once("## Dependencies").unwrap();
    let named: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .flat_map(|cell| cell.split(", "))
        .collect();
    let workspace: DocumentMut = fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    // The fuzz targets are a workspace of their own.
    let folders = members.iter().map(|member| member.as_str().unwrap()).chain(["fuzz"]);
    let mut found = 0;
    for folder in folders {
        let text = fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap();
        let manifest: DocumentMut = text.parse().unwrap();
        let tables = ["dependencies", "dev-dependencies"].map(|name| manifest.get(name));
        for (name, spec) in tables.into_iter().flatten().flat_map(|table| table.as_table().unwrap()) {
            if name.starts_with("pagelift") || spec.get("path").is_some() {
                continue;
            }
            assert!(named.contains(&name), "{folder}/Cargo.toml: DESIGN.md does not say why `{name}`");
            found += 1;
        }
    }
    assert!(found > 30, "only {found} dependencies");
}
