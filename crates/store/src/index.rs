//! Indexing: one event after another, over what is known of the items so far.

use crate::StoreError;
use crate::engine::ItemWrite;
use crate::line::Line;
use crate::rows::{RunRow, SegRow};
use folio_codec::hash64;
use folio_core::assign::{Directory, OpenRun, Placed, Tail, assign, remember_request};
use folio_core::claims::{Claims, claims};
use folio_core::diagnostic::Code;
use folio_core::item::{LanePart, Position};
use folio_core::key::{ItemKind, base_key};
use folio_core::reduce::chunk_len;
use folio_core::{EventView, Field, Item, Spine};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The item identities and events that indexing an event has to know.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) bases: HashSet<Box<str>>,
    pub(crate) revised: HashSet<String>,
    pub(crate) requests: HashSet<String>,
}

impl Wanted {
    /// Adds what an event asks for; more than needed does no harm.
    pub(crate) fn add(&mut self, view: &EventView<'_>, spine: &Spine) {
        let claims = claims(view, spine, true);
        for claim in &claims.own {
            match claim.kind {
                ItemKind::Call => self.sibling(&claim.base, ItemKind::Result),
                ItemKind::Result => self.sibling(&claim.base, ItemKind::Call),
                _ => {}
            }
            self.bases.insert(claim.base.clone());
        }
        self.bases.extend(claims.call);
        if let Some(tool) = view.text(Field::RequestToolUseId) {
            let turn = view.text(Field::ScopeTurnId);
            let turn = turn.as_deref().unwrap_or(spine.turn_id.as_str());
            self.bases.insert(base_key(ItemKind::Call, turn, &tool));
        }
        self.revised.extend(claims.revises.map(String::from));
        self.requests.extend(claims.request.map(String::from));
    }

    fn sibling(&mut self, base: &str, kind: ItemKind) {
        let rest = base.split_once(':').map_or(base, |(_, rest)| rest);
        self.bases
            .insert(format!("{}:{rest}", kind.as_str()).into_boxed_str());
    }

    /// Adds the calls that undecided requests are about, if they are decided
    /// now.
    pub(crate) fn add_requests(&mut self, tail: &Tail) {
        for request in &tail.requests {
            if self.requests.contains(&*request.request_id) {
                self.bases.extend(request.call.clone());
            }
        }
    }
}

/// The items that are known, with what indexing has changed on top.
#[derive(Debug, Default)]
pub(crate) struct Items {
    known: HashMap<Box<str>, Vec<Item>>,
    ordinals: HashMap<String, u64>,
    /// Where the text of a lane ends: its last chunk's end.
    ends: HashMap<(Position, LanePart), u64>,
    touched: BTreeMap<Position, ItemWrite>,
    segs: Vec<SegRow>,
    /// The number of items in the index.
    pub(crate) count: u64,
    /// The last ordinal that the log inherits: an item from there gets a row
    /// of its own in the log's index, found by a key of its own.
    base: u64,
    /// The ordinal as of which stored items are seen.
    until: u64,
}

impl Directory for Items {
    fn incarnations(&self, base: &str) -> Vec<Item> {
        self.known.get(base).cloned().unwrap_or_default()
    }
    fn ordinal_of(&self, event_id: &str) -> Option<u64> {
        self.ordinals.get(event_id).copied()
    }
}

impl Items {
    /// Starts from the number of items that the index holds, in a log whose
    /// own events begin behind `base`.
    pub(crate) fn new(count: u64, base: u64) -> Self {
        Self {
            count,
            base,
            until: u64::MAX,
            ..Self::default()
        }
    }

    /// Sees what is stored as it was at an ordinal.
    pub(crate) fn as_of(until: u64) -> Self {
        Self {
            until,
            ..Self::default()
        }
    }

    /// Learns what is stored of the wanted identities.
    pub(crate) fn fetch(&mut self, line: &Line<'_>, wanted: &Wanted) -> Result<(), StoreError> {
        for base in &wanted.bases {
            if self.known.contains_key(base) {
                continue;
            }
            let mut found = line.items_by_hash(hash64(base.as_bytes()))?;
            found.retain(|item| item.base() == &**base && item.position.ordinal <= self.until);
            if self.until != u64::MAX {
                found = found
                    .into_iter()
                    .map(|item| line.item_at(item, self.until))
                    .collect::<Result<_, _>>()?;
            }
            for item in &found {
                for lane in item.open_lanes(u64::MAX) {
                    if let Some(seg) = line.last_seg(item.position, lane, self.until)? {
                        self.ends
                            .insert((item.position, lane), seg.before + seg.bytes);
                    }
                }
            }
            self.known.insert(base.clone(), found);
        }
        Ok(())
    }

    /// Learns the ordinal of an event that a later one may revise.
    pub(crate) fn learn_event(&mut self, id: &str, ordinal: u64) {
        self.ordinals.entry(id.to_owned()).or_insert(ordinal);
    }

    /// Indexes one event.
    pub(crate) fn index(
        &mut self,
        view: &EventView<'_>,
        run: &RunRow,
        ordinal: u64,
        tail: &mut Tail,
    ) -> Vec<Code> {
        let placed = Placed {
            ordinal,
            run_no: run.run_no,
            ts: view.ts,
            weight: view.weight(),
        };
        let claims = claims(view, &run.spine, run.inline);
        let assigned = assign(&claims, &placed, tail, self);
        self.remember(view, run, &claims, &placed, tail);
        for item in assigned.items {
            self.put(item);
        }
        if let Some(chunk) = assigned.chunk {
            let lane = (chunk.lane, chunk.index);
            let bytes = chunk_len(view);
            let end = self.ends.entry((chunk.position, lane)).or_default();
            let before = *end;
            *end += bytes;
            let position = chunk.position;
            self.segs.push(SegRow {
                position,
                lane,
                before,
                bytes,
                seg: ordinal,
                n: 1,
                last: ordinal,
            });
        }
        assigned.diagnostics
    }

    fn remember(
        &self,
        view: &EventView<'_>,
        run: &RunRow,
        claims: &Claims,
        placed: &Placed<'_>,
        tail: &mut Tail,
    ) {
        if let Some(id) = view.text(Field::RequestId).filter(|_| run.inline) {
            let turn = view.text(Field::ScopeTurnId);
            let turn = turn.as_deref().unwrap_or(run.spine.turn_id.as_str());
            let call = view
                .text(Field::RequestToolUseId)
                .map(|tool| base_key(ItemKind::Call, turn, &tool))
                .or_else(|| claims.call.clone());
            remember_request(tail, &id, call, placed);
        }
    }

    fn put(&mut self, mut item: Item) {
        let mut is_new = item.number == 0;
        if is_new {
            self.count += 1;
            item.number = self.count;
        }
        is_new |= item.position.ordinal <= self.base;
        let known = self.known.entry(item.base().into()).or_default();
        match known
            .iter_mut()
            .find(|known| known.position == item.position)
        {
            Some(slot) => *slot = item.clone(),
            None => known.push(item.clone()),
        }
        // An item that is new since the last write stays new when it changes.
        let is_new = is_new
            || self
                .touched
                .get(&item.position)
                .is_some_and(|write| write.is_new);
        self.touched
            .insert(item.position, ItemWrite { item, is_new });
    }

    /// Takes what indexing has changed since the last time.
    pub(crate) fn take_writes(&mut self) -> (Vec<ItemWrite>, Vec<SegRow>) {
        let touched = std::mem::take(&mut self.touched);
        (
            touched.into_values().collect(),
            std::mem::take(&mut self.segs),
        )
    }

    /// Forgets the identities, keeping the count: for long rebuilds.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.ordinals.clear();
        self.ends.clear();
    }
}

/// Opens a run in the tail. `before` is an ended run of its turn that had
/// visible output.
pub(crate) fn open_run(tail: &mut Tail, run: &RunRow, before: Option<&RunRow>) {
    let turn_id = run.spine.turn_id.clone();
    let sibling = tail
        .runs
        .iter()
        .find(|open| open.turn_id == turn_id)
        .map(|open| open.output);
    let output = sibling.unwrap_or_else(|| before.is_some_and(|run| run.output));
    let (run_no, inline) = (run.run_no, run.inline);
    tail.runs.push(OpenRun {
        run_no,
        next_seq: 1,
        turn_id,
        inline,
        output,
    });
}
