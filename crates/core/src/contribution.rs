//! Facts of the logs that are not the runtime ledger: UI notes first.
//!
//! A contribution is a row that another source offers to the transcript. Its
//! fact is canonical JSON of fixed members, and its place in the transcript is
//! an anchor: the ordinal of the event that it stands behind.

use crate::id::{ForeignId, TurnId};
use crate::json::Json;
use crate::object::{Number, Writer};
use alloc::string::String;

words! {
    /// What a fact does to its item.
    pub closed enum FactOp {
        /// It makes the item.
        Put = "put",
    }
}

/// One fact of a contribution log.
///
/// ```
/// use folio_core::{Fact, FactOp, ForeignId};
///
/// let fact = Fact {
///     id: ForeignId::new("note-1")?,
///     op: FactOp::Put,
///     anchor: 0,
///     ts: None,
///     kind: "session_start".into(),
///     turn_id: None,
///     visible: true,
///     data: None,
/// };
/// assert_eq!(
///     fact.canonical(),
///     r#"{"anchor":0,"id":"note-1","kind":"session_start","op":"put","visible":true}"#
/// );
/// # Ok::<(), folio_core::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The identity of the item in its log.
    pub id: ForeignId,
    /// What the fact does.
    pub op: FactOp,
    /// The ordinal of the event that the item stands behind; 0 is before all.
    pub anchor: u64,
    /// Milliseconds since 1970, as written.
    pub ts: Option<Number>,
    /// The kind of the item, such as `mode_change`.
    pub kind: String,
    /// The turn that it belongs to, if any.
    pub turn_id: Option<TurnId>,
    /// Whether it is a row of the transcript.
    pub visible: bool,
    /// What it says; the shape depends on the kind.
    pub data: Option<Json>,
}

impl Fact {
    /// The canonical text: the bytes that the log keeps and digests.
    pub fn canonical(&self) -> String {
        let mut writer = Writer::default();
        writer.member("id", &self.id);
        writer.member("op", &self.op);
        writer.member("anchor", &self.anchor);
        writer.member("ts", &self.ts);
        writer.member("kind", &self.kind);
        writer.member("turnId", &self.turn_id);
        writer.member("visible", &self.visible);
        writer.member("data", &self.data);
        writer.sorted()
    }

    /// Reads a fact from its canonical text.
    ///
    /// # Errors
    /// [`crate::ShapeError`] naming the member that is not as it must be.
    pub fn from_json(text: &str) -> Result<Self, crate::EventError> {
        let json = Json::parse(text)?;
        let object = json
            .as_object()
            .ok_or_else(|| crate::ShapeError::new("", "an object"))?;
        Ok(Self {
            id: crate::object::member(&object, "id")?,
            op: crate::object::member(&object, "op")?,
            anchor: crate::object::member(&object, "anchor")?,
            ts: crate::object::member(&object, "ts")?,
            kind: crate::object::member(&object, "kind")?,
            turn_id: crate::object::member(&object, "turnId")?,
            visible: crate::object::member(&object, "visible")?,
            data: crate::object::member(&object, "data")?,
        })
    }

    /// What is left of it when its payload is taken out: identity and place.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        self.data = Some(Json::trusted("{\"redacted\":true}"));
        self
    }

    /// The item as the client-facing row that notes have: a `system_note`.
    pub fn to_row(&self) -> String {
        let mut writer = Writer::default();
        writer.raw("type", "\"system_note\"".into());
        writer.member("id", &self.id);
        writer.member("turnId", &self.turn_id);
        match &self.ts {
            Some(ts) => writer.member("ts", ts),
            None => writer.raw("ts", "0".into()),
        }
        writer.member("kind", &self.kind);
        writer.member("data", &self.data);
        writer.written()
    }
}
