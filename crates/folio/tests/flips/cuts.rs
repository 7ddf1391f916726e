//! A closed store that was cut short: it is refused, or all that it answers is
//! true or says that something is missing.

use crate::store::ENGINES;
use crate::{Bench, judge_all};
use folio_testkit::workload::Random;

#[test]
fn a_store_that_was_cut_is_refused_or_says_what_is_missing() {
    for engine in ENGINES {
        judge_all(
            *engine,
            |whole| {
                let mut random = Random::new(3);
                let pages = whole.bytes.len() / 4_096;
                (0..200)
                    .map(|n| match n % 4 {
                        // A file system cuts at pages more often than elsewhere.
                        0 => random.below(pages) * 4_096,
                        1 => random.below(4_096),
                        _ => random.below(whole.bytes.len()),
                    })
                    .collect()
            },
            Bench::cut,
        );
    }
}
