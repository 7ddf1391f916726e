//! Which item an event speaks for.

use crate::conformance::Case;

/// The cases of this group.
pub(crate) const CASES: &[Case] = &[];
