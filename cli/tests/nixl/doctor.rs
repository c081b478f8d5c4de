//! `pagelift doctor` where NIXL is built in.

use serde_json::Value;

use crate::support;
use crate::support::json;

#[test]
fn doctor_says_which_library_it_has_and_what_that_can_do() {
    let found = json(&["doctor", "--json"]);
    let nixl = &found["nixl"];
    assert!(nixl["library"].as_str().unwrap().ends_with("libnixl_capi.so"), "{nixl}");
    assert!(nixl["plugins"].as_array().unwrap().contains(&Value::from("UCX")), "{nixl}");
    let mut findings = found["findings"].as_array().unwrap().iter();
    let words = findings.find(|finding| finding["what"] == "NIXL").unwrap()["found"].as_str().unwrap();
    assert!(words.contains("UCX") && words.contains("libnixl_capi.so"), "{words}");
}

#[test]
fn without_the_library_doctor_says_what_to_do_and_goes_on() {
    let file = if cfg!(target_os = "linux") { "/nowhere/libnixl_capi.so" } else { "nowhere" };
    let output = support::command(&["doctor", "--json"]).env("PAGELIFT_NIXL", file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["nixl"], Value::Null);
    let mut findings = found["findings"].as_array().unwrap().iter();
    let words = findings.find(|finding| finding["what"] == "NIXL").unwrap()["found"].as_str().unwrap();
    assert!(words.contains(file) && words.contains("pip install nixl-cu12"), "{words}");
}
