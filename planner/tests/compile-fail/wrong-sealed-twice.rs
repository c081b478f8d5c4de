//! A page is sealed once.

use pagelift_planner::lifecycle::OpenPage;

fn seal(page: OpenPage) {
    let _ = page.seal();
    let _ = page.seal();
}

fn main() {}
