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
pub mod assign;
pub mod canonical;
pub mod claims;
pub mod contribution;
pub mod cursor;
pub mod diagnostic;
pub mod event;
pub mod id;
pub mod item;
pub mod json;
pub mod key;
pub mod member;
pub mod message;
pub mod redact;
pub mod reduce;
pub mod session;
mod sha256;
pub mod stream;
pub mod view;

pub use canonical::{CanonicalEvent, Spine};
pub use contribution::{Fact, FactOp};
pub use cursor::{Cursor, CursorError, Direction, Watermarks};
pub use event::{
    Actions, Author, Compaction, Content, Criticality, ErrorContent, EventError, Extension,
    FunctionCall, FunctionResponse, ModelVisibility, Origin, Refs, Role, RunOpened, RuntimeEvent,
    Status, TextContent, ThinkingContent,
};
pub use id::{EventId, ForeignId, IdError, InvocationId, RunId, SessionId, TurnId};
pub use item::{Item, ItemRef, Position};
pub use json::{Json, JsonError};
pub use key::ItemKind;
pub use member::{Member, Stored};
pub use message::StoredMessage;
pub use object::{Members, Number, ShapeError};
pub use session::{AgentRunHeader, Authority, RunStatus};
pub use view::{EventView, Field, Fields};

/// The version of wire shapes and paging meaning. A change of either raises
/// it, and older cursors and clients are refused by it.
pub const COMPATIBILITY_EPOCH: u32 = 1;

/// The version of the rules in [`claims`], [`assign`] and [`reduce`]. An index
/// made by another version is rebuilt before it is used.
pub const PROJECTION_VERSION: u32 = 1;
