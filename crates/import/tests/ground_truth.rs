//! What imports count, against counts that were made independently, on the
//! store in memory. The stores in files have the same test at the root.

mod common;
#[path = "common/ground_truth.rs"]
mod ground_truth;

fn main() -> std::process::ExitCode {
    ground_truth::run(&[common::MEMORY])
}
