//! What imports count, against counts that were made independently, on the
//! stores in files.

#[path = "../../import/tests/common/mod.rs"]
mod common;
#[path = "../../import/tests/common/ground_truth.rs"]
mod ground_truth;
mod stores_in_files;

fn main() -> std::process::ExitCode {
    ground_truth::run(&[stores_in_files::SQLITE, stores_in_files::REDB])
}
