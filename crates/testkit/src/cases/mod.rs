//! The cases, by group.

use crate::conformance::Case;

mod append;
mod close;
mod contribution;
mod damage;
mod durability;
mod failure;
mod identity;
mod index;
mod item;
mod process;
mod projection;
mod read;
mod session;

/// Every case of the suite.
pub(crate) fn all() -> Vec<Case> {
    [
        append::CASES,
        session::CASES,
        read::CASES,
        item::CASES,
        identity::CASES,
        index::CASES,
        projection::CASES,
        contribution::CASES,
        durability::CASES,
        failure::CASES,
        damage::CASES,
        process::CASES,
        close::CASES,
    ]
    .concat()
}
