//! The facts of an agent session, and the pure rules that turn them into a
//! transcript.
//!
//! This crate knows no file, clock, network or randomness (it is `no_std`) and
//! depends on nothing. It holds the ledger's vocabulary ([`RuntimeEvent`]),
//! the canonical form that is kept and digested ([`CanonicalEvent`]), the
//! identity of visible items and the rules by which events become items and
//! items become rows.
//!
//! Read in this order: [`json`], [`event`], [`canonical`], [`view`], then
//! [`key`], [`claims`], [`assign`] and [`reduce`].
#![cfg_attr(not(test), no_std)]
extern crate alloc;

#[macro_use]
pub mod object;
pub mod canonical;
pub mod contribution;
pub mod event;
pub mod id;
pub mod json;
mod sha256;
pub mod view;

pub use canonical::{CanonicalEvent, Spine};
pub use contribution::{Fact, FactOp};
pub use event::{
    Actions, Author, Compaction, Content, Criticality, ErrorContent, EventError, Extension,
    FunctionCall, FunctionResponse, ModelVisibility, Origin, Refs, Role, RunOpened, RuntimeEvent,
    Status, TextContent, ThinkingContent,
};
pub use id::{EventId, ForeignId, IdError, InvocationId, RunId, SessionId, TurnId};
pub use json::{Json, JsonError};
pub use object::{Members, Number, ShapeError};
pub use view::{EventView, Field, Fields};
