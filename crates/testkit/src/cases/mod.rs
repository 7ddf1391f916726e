//! The cases, by group.

use crate::conformance::Case;

mod append;
mod blob;
mod close;
mod contribution;
mod damage;
mod durability;
mod erase;
mod failure;
mod fork;
mod group;
mod identity;
mod index;
mod item;
mod lease;
mod member;
mod packing;
mod process;
mod projection;
mod read;
mod redact;
mod session;
mod source;
mod view;
mod watch;

/// Every case of the suite.
pub(crate) fn all() -> Vec<Case> {
    [
        append::CASES,
        group::CASES,
        packing::CASES,
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
        fork::CASES,
        erase::CASES,
        redact::CASES,
        lease::CASES,
        blob::CASES,
        member::CASES,
        watch::CASES,
        view::CASES,
        source::CASES,
    ]
    .concat()
}
