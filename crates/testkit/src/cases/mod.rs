//! The cases, by group.

use crate::conformance::Case;

mod identity;

/// Every case of the suite.
pub(crate) fn all() -> Vec<Case> {
    [identity::CASES].concat()
}
