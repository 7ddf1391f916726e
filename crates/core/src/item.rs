//! Items: the visible rows, and which events make them.

use crate::key::{self, ItemKind};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// An item's place in the transcript: the ordinal of its first own partial or
/// final contribution and the slot within that event. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The event's ordinal.
    pub ordinal: u64,
    /// Which of the event's rows: content 0, permission 1, usage 2, turn
    /// state 3, step limit 4.
    pub slot: u8,
}

/// An independent part of an item that settles on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Visible text.
    Text = 0,
    /// Reasoning.
    Thinking = 1,
    /// The first tool call of a step; a mark only.
    Tools = 2,
    /// Arguments of a call.
    Args = 3,
    /// Result of a call.
    Result = 4,
    /// A decision.
    Decision = 5,
    /// Usage; the latest holds.
    Usage = 6,
    /// End of the run; the latest holds.
    Turn = 7,
    /// The whole of a note.
    Note = 8,
}

impl Lane {
    /// The lane of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        [
            Self::Text,
            Self::Thinking,
            Self::Tools,
            Self::Args,
            Self::Result,
            Self::Decision,
            Self::Usage,
            Self::Turn,
            Self::Note,
        ]
        .into_iter()
        .find(|lane| *lane as u8 == number)
    }

    /// Whether a later final simply takes the place of an earlier one.
    pub fn takes_latest(self) -> bool {
        matches!(self, Self::Usage | Self::Turn)
    }
}

/// What an event is to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Part {
    /// The first chunk of a lane; later ones are found through the index.
    FirstChunk = 0,
    /// A final contribution.
    Final = 1,
    /// A final that stands in for one that never came.
    Closer = 2,
    /// Seen, without content of its own.
    Mark = 3,
    /// The call that the item refers to.
    Call = 4,
    /// The request that the item answers.
    Request = 5,
}

impl Part {
    /// The part of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        [
            Self::FirstChunk,
            Self::Final,
            Self::Closer,
            Self::Mark,
            Self::Call,
            Self::Request,
        ]
        .into_iter()
        .find(|part| *part as u8 == number)
    }
}

/// One event that an item is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Need {
    /// The event's ordinal.
    pub ordinal: u64,
    /// The lane it contributes to.
    pub lane: Lane,
    /// Which text or thinking of the message, from 0.
    pub index: u32,
    /// What it is to the item.
    pub part: Part,
}

/// One incarnation of an identity, as the index keeps it: positions and keys,
/// nothing that only the events may say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its place.
    pub position: Position,
    /// Its running number in the index, from 1; 0 until it is stored.
    pub number: u64,
    /// Its kind.
    pub kind: ItemKind,
    /// Its key with the incarnation.
    pub key: Box<str>,
    /// The run of its first own contribution.
    pub run_no: u32,
    /// The time of its first own contribution, as written.
    pub ts: Box<str>,
    /// The highest own contribution so far.
    pub revision: u64,
    /// For the end of a run: whether its turn had visible output.
    pub output_retained: bool,
    /// Tells the steps of calls apart; 0 where the call names none.
    pub step: u64,
    /// Tells operations apart; 0 where the call names none.
    pub operation: u64,
    /// Bytes of the events that its finals stand in; how much a reader will
    /// have to load.
    pub weight: u64,
    /// The events it is made of, ascending by ordinal.
    pub need: Vec<Need>,
}

/// A lane and part number of an item.
pub type LanePart = (Lane, u32);

/// An [`Item`], borrowed from wherever it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemRef<'a> {
    /// See [`Item::position`].
    pub position: Position,
    /// See [`Item::number`].
    pub number: u64,
    /// See [`Item::kind`].
    pub kind: ItemKind,
    /// See [`Item::key`].
    pub key: &'a str,
    /// See [`Item::run_no`].
    pub run_no: u32,
    /// See [`Item::ts`].
    pub ts: &'a str,
    /// See [`Item::revision`].
    pub revision: u64,
    /// See [`Item::output_retained`].
    pub output_retained: bool,
    /// See [`Item::step`].
    pub step: u64,
    /// See [`Item::operation`].
    pub operation: u64,
    /// See [`Item::weight`].
    pub weight: u64,
    /// See [`Item::need`].
    pub need: &'a [Need],
}

impl<'a> ItemRef<'a> {
    /// The same item, its texts and needs kept elsewhere.
    pub fn kept<'b>(&self, key: &'b str, ts: &'b str, need: &'b [Need]) -> ItemRef<'b> {
        ItemRef {
            position: self.position,
            number: self.number,
            kind: self.kind,
            key,
            run_no: self.run_no,
            ts,
            revision: self.revision,
            output_retained: self.output_retained,
            step: self.step,
            operation: self.operation,
            weight: self.weight,
            need,
        }
    }

    /// The item as a value of its own.
    pub fn to_item(&self) -> Item {
        Item {
            position: self.position,
            number: self.number,
            kind: self.kind,
            key: self.key.into(),
            run_no: self.run_no,
            ts: self.ts.into(),
            revision: self.revision,
            output_retained: self.output_retained,
            step: self.step,
            operation: self.operation,
            weight: self.weight,
            need: self.need.to_vec(),
        }
    }

    /// The final that settles a lane at a watermark.
    pub fn settled_by(&self, lane: LanePart, through: u64) -> Option<&'a Need> {
        self.need.iter().rev().find(|need| {
            need.ordinal <= through
                && (need.lane, need.index) == lane
                && matches!(need.part, Part::Final | Part::Closer)
        })
    }

    /// The lanes with content at a watermark, ascending.
    pub fn lanes(&self, through: u64) -> Vec<LanePart> {
        let mut lanes: Vec<_> = self
            .need
            .iter()
            .filter(|need| {
                need.ordinal <= through
                    && matches!(need.part, Part::FirstChunk | Part::Final | Part::Closer)
            })
            .map(|need| (need.lane, need.index))
            .collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// The lanes whose chunks are the visible content at a watermark.
    pub fn open_lanes(&self, through: u64) -> Vec<LanePart> {
        if !self.need.iter().any(|need| need.part == Part::FirstChunk) {
            return Vec::new();
        }
        let mut lanes = self.lanes(through);
        lanes.retain(|lane| self.settled_by(*lane, through).is_none());
        lanes
    }

    /// Adds the ordinals of the events that the row at a watermark is made
    /// of, ascending, chunks apart.
    pub fn add_ordinals(&self, through: u64, out: &mut Vec<u64>) {
        if let [only] = self.need {
            if only.ordinal <= through && only.part != Part::FirstChunk {
                out.push(only.ordinal);
            }
            return;
        }
        let from = out.len();
        for need in self.need {
            let used = match need.part {
                Part::Call | Part::Request => need.ordinal <= through,
                Part::Final | Part::Closer => {
                    let lane = (need.lane, need.index);
                    self.settled_by(lane, through) == Some(need)
                }
                Part::FirstChunk | Part::Mark => false,
            };
            // What an item needs ascends, so the same event stands together.
            if used
                && out
                    .get(from..)
                    .is_some_and(|own| own.last() != Some(&need.ordinal))
            {
                out.push(need.ordinal);
            }
        }
    }

    /// The references that the row at a watermark uses.
    pub fn references(self, through: u64) -> impl Iterator<Item = &'a Need> {
        self.need.iter().filter(move |need| {
            need.ordinal <= through && matches!(need.part, Part::Call | Part::Request)
        })
    }

    /// When a kind of content was first seen, at a watermark.
    pub fn first_seen(&self, lane: Lane, through: u64) -> Option<u64> {
        self.need
            .iter()
            .filter(|need| need.lane == lane && need.ordinal <= through)
            .filter(|need| need.part != Part::Mark || lane == Lane::Tools)
            .map(|need| need.ordinal)
            .min()
    }

    /// The highest own contribution at a watermark, given the last chunk of
    /// the open lanes at or below it.
    pub fn revision_at(&self, through: u64, last_chunk: Option<u64>) -> u64 {
        if self.revision <= through {
            return self.revision;
        }
        self.need
            .iter()
            .filter(|need| !matches!(need.part, Part::Call | Part::Request))
            .map(|need| need.ordinal)
            .filter(|ordinal| *ordinal <= through)
            .chain(last_chunk)
            .max()
            .unwrap_or(self.position.ordinal)
    }
}

impl Item {
    /// The item, borrowed.
    pub fn borrowed(&self) -> ItemRef<'_> {
        ItemRef {
            position: self.position,
            number: self.number,
            kind: self.kind,
            key: &self.key,
            run_no: self.run_no,
            ts: &self.ts,
            revision: self.revision,
            output_retained: self.output_retained,
            step: self.step,
            operation: self.operation,
            weight: self.weight,
            need: &self.need,
        }
    }

    /// The identity without the incarnation.
    pub fn base(&self) -> &str {
        key::split(&self.key).0
    }

    /// The incarnation, from 1.
    pub fn incarnation(&self) -> u32 {
        key::split(&self.key).1
    }

    /// Whether the lane holds a closer and nothing real.
    pub fn is_only_closed(&self, lane: LanePart) -> bool {
        self.settled_by(lane, u64::MAX)
            .is_some_and(|need| need.part == Part::Closer)
    }

    /// See [`ItemRef::settled_by`].
    pub fn settled_by(&self, lane: LanePart, through: u64) -> Option<&Need> {
        self.borrowed().settled_by(lane, through)
    }

    /// See [`ItemRef::lanes`].
    pub fn lanes(&self, through: u64) -> Vec<LanePart> {
        self.borrowed().lanes(through)
    }

    /// See [`ItemRef::open_lanes`].
    pub fn open_lanes(&self, through: u64) -> Vec<LanePart> {
        self.borrowed().open_lanes(through)
    }

    /// The ordinals of the events that the row at a watermark is made of,
    /// ascending, chunks apart.
    pub fn ordinals(&self, through: u64) -> Vec<u64> {
        let mut ordinals = Vec::new();
        self.borrowed().add_ordinals(through, &mut ordinals);
        ordinals
    }

    /// See [`ItemRef::references`].
    pub fn references(&self, through: u64) -> impl Iterator<Item = &Need> {
        self.borrowed().references(through)
    }

    /// See [`ItemRef::first_seen`].
    pub fn first_seen(&self, lane: Lane, through: u64) -> Option<u64> {
        self.borrowed().first_seen(lane, through)
    }

    /// See [`ItemRef::revision_at`].
    pub fn revision_at(&self, through: u64, last_chunk: Option<u64>) -> u64 {
        self.borrowed().revision_at(through, last_chunk)
    }
}
