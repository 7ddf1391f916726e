//! stub
use crate::conformance::Case;
pub(crate) const CASES: &[Case] = &[];
