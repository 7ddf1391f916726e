//! folio
