//! Wrong stores.
