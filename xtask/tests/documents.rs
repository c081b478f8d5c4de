//! Documents that name things of the sources.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::{ImplItem, Item, TraitItem, Type};
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

/// Files with unsafe code.
fn unsafe_files(root: &Path) -> BTreeSet<String> {
    let crates = [
        "src",
        "planner/src",
        "transport/src",
        "cli/src",
        "python/src",
        "c/src",
        "bindings/src",
        "simulation/src",
    ];
    let files = crates.into_iter().flat_map(|folder| WalkDir::new(root.join(folder)));
    let mut found = BTreeSet::new();
    for file in files.map(|entry| entry.unwrap().into_path()) {
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .flat_map(|line| [line, "\n"])
            .collect();
        if ["{", "fn", "impl", "trait", "extern"]
            .iter()
            .any(|next| code.contains(&["unsafe", next].join(" ")))
        {
            found.insert(file.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn unsafe_code_is_where_the_rules_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let (_, rule) = text.split_once("**Unsafe code**").unwrap();
    let (rule, _) = rule.split_once("\n\n").unwrap();
    let named: Vec<&str> = rule.split('`').skip(1).step_by(2).filter(|word| word.contains('/')).collect();
    let found = unsafe_files(&root);
    for file in &found {
        let there = named.iter().any(|name| file == name || name.ends_with('/') && file.starts_with(name));
        assert!(there, "{file} has unsafe code, and CONTRIBUTING.md does not say so");
    }
    for name in named.iter().filter(|name| !name.starts_with("gpu-kernels/")) {
        let there = found.iter().any(|file| file == name || name.ends_with('/') && file.starts_with(name));
        assert!(there, "CONTRIBUTING.md names `{name}`, which has no unsafe code");
    }
}

/// What the types of a language have, by their names; what belongs to none is under the empty one.
type Members = BTreeMap<String, BTreeSet<String>>;

/// The functions of each type of the library's sources. An alias has what it stands for has.
fn in_rust(root: &Path) -> Members {
    fn last(of: &Type) -> Option<String> {
        let Type::Path(of) = of else { return None };
        Some(of.path.segments.last()?.ident.to_string())
    }
    let (mut members, mut aliases) = (Members::new(), Vec::new());
    let files = ["src", "planner/src", "transport/src"]
        .into_iter()
        .flat_map(|folder| WalkDir::new(root.join(folder)));
    for file in files.map(|entry| entry.unwrap().into_path()) {
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        for item in syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap().items {
            match item {
                Item::Impl(of) => {
                    let functions = of.items.iter().filter_map(|item| match item {
                        ImplItem::Fn(function) => Some(function.sig.ident.to_string()),
                        _ => None,
                    });
                    members.entry(last(&of.self_ty).unwrap_or_default()).or_default().extend(functions);
                }
                Item::Trait(of) => {
                    let functions = of.items.iter().filter_map(|item| match item {
                        TraitItem::Fn(function) => Some(function.sig.ident.to_string()),
                        _ => None,
                    });
                    members.entry(of.ident.to_string()).or_default().extend(functions);
                }
                Item::Type(of) => aliases.extend(last(&of.ty).map(|target| (of.ident.to_string(), target))),
                _ => {}
            }
        }
    }
    for (name, target) in aliases {
        let of_target = members.get(&target).cloned().unwrap_or_default();
        members.entry(name).or_default().extend(of_target);
    }
    members
}

/// The classes of the Python package with their members, those of classes before them included, and its functions.
fn in_python(root: &Path) -> Members {
    let mut members = Members::from([(String::new(), BTreeSet::new())]);
    let mut class = String::new();
    let files = ["__init__.pyi", "transport.pyi"].map(|name| root.join("python/pagelift").join(name));
    let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for line in text.lines() {
        let name = |rest: &str| {
            rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap().to_owned()
        };
        if let Some(rest) = line.strip_prefix("class ") {
            class = name(rest);
            let bases = rest.split_once('(').map_or("", |(_, bases)| bases.split(')').next().unwrap());
            let inherited: BTreeSet<_> =
                bases.split(", ").filter_map(|base| members.get(base)).flatten().cloned().collect();
            members.entry(class.clone()).or_default().extend(inherited);
            members.get_mut("").unwrap().insert(class.clone());
        } else if let Some(rest) = line.strip_prefix("def ") {
            members.get_mut("").unwrap().insert(name(rest));
        } else if let Some(rest) = line.strip_prefix("    def ") {
            members.get_mut(&class).unwrap().insert(name(rest));
        }
    }
    members
}

/// The functions of the header.
fn in_c(root: &Path) -> BTreeSet<String> {
    let header = fs::read_to_string(root.join("c/include/pagelift.h")).unwrap();
    let calls = header.lines().filter(|line| line.starts_with("pagelift_status pagelift_"));
    calls.map(|line| line["pagelift_status ".len()..].split('(').next().unwrap().to_owned()).collect()
}

#[test]
fn calls_in_three_languages_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("docs/embedding.md")).unwrap();
    let (rust, python, c) = (in_rust(&root), in_python(&root), in_c(&root));
    let has = |members: &Members, of: &str, name: &str| members.get(of).is_some_and(|all| all.contains(name));
    let (_, table) = text.split_once("| what | Rust | Python | C |").unwrap();
    let mut found = 0;
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, in_rust, in_python, in_c] = cells[..] else { panic!("four cells, not {line}") };
        if in_rust != "–" {
            let (of, name) = in_rust.split_once("::").unwrap();
            assert!(has(&rust, of, name), "Rust has no `{in_rust}`");
        }
        if in_python != "–" {
            let (of, name) = in_python.split_once('.').unwrap_or(("", in_python));
            assert!(has(&python, of, name), "Python has no `{in_python}`");
        }
        assert!(in_c == "–" || c.contains(in_c), "C has no `{in_c}`");
        found += 1;
    }
    assert!(found > 60, "only {found} calls");
}
