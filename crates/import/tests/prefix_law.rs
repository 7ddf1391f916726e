//! A prefix of a file imported, then the whole, at every cut, on the store in
//! memory. The stores in files have the same test at the root.

mod common;
#[path = "common/prefix_law.rs"]
mod prefix_law;

use prefix_law::Cuts;

fn main() -> std::process::ExitCode {
    prefix_law::run(&[(common::MEMORY, Cuts::All)])
}
