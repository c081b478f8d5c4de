//! Bars for long work, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how far the job is. Silent where nobody watches.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    visible: bool,
}

impl Progress {
    /// Shows bars, unless `quiet` or standard error is no terminal.
    pub fn new(quiet: bool) -> Self {
        Self { visible: !quiet }
    }

    /// A bar for `bytes` bytes of work.
    pub fn bytes(self, what: &'static str, bytes: u64) -> Bar {
        self.bar(what, bytes, "{msg:>10} {wide_bar} {bytes} of {total_bytes}, {eta} left")
    }

    /// A bar for `count` steps of work.
    pub fn steps(self, what: &'static str, count: u64) -> Bar {
        self.bar(what, count, "{msg:>10} {wide_bar} {pos} of {len}, {eta} left")
    }

    /// A note that something goes on, of unknown length.
    pub fn waiting(self, what: &'static str) -> Bar {
        self.bar(what, 0, "{spinner} {msg}")
    }

    fn bar(self, what: &'static str, length: u64, template: &str) -> Bar {
        let target = if self.visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(length), target).with_message(what);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }
}

/// One bar; it goes when its work is done.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// So much more is done.
    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
