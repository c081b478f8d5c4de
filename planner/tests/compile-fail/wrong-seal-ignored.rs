//! Whether a page was sealed has to be looked at.
#![deny(unused_must_use)]

use pagelift_planner::lifecycle::OpenPage;

fn seal(page: OpenPage) {
    page.seal();
}

fn main() {}
