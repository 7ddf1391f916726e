//! A prefix of a file imported, then the whole, at a sample of the cuts, on the
//! stores in files. The store in memory has the same test at every cut.

#[path = "../../import/tests/common/mod.rs"]
mod common;
#[path = "../../import/tests/common/prefix_law.rs"]
mod prefix_law;
mod stores_in_files;

use prefix_law::Cuts;

fn main() -> std::process::ExitCode {
    prefix_law::run(&[
        (stores_in_files::REDB, Cuts::Sample),
        (stores_in_files::SQLITE, Cuts::Sample),
    ])
}
