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
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

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
        identities(&claims, view, spine, |base| {
            self.bases.insert(base.into());
        });
        self.revised.extend(claims.revises.map(String::from));
        self.requests.extend(claims.request.map(String::from));
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

/// Tells the identities that indexing an event asks for; more than needed does
/// no harm.
fn identities(claims: &Claims, view: &EventView<'_>, spine: &Spine, mut tell: impl FnMut(&str)) {
    for claim in &claims.own {
        match claim.kind {
            ItemKind::Call => tell(&sibling(&claim.base, ItemKind::Result)),
            ItemKind::Result => tell(&sibling(&claim.base, ItemKind::Call)),
            _ => {}
        }
        tell(&claim.base);
    }
    if let Some(call) = &claims.call {
        tell(call);
    }
    if let Some(tool) = view.text(Field::RequestToolUseId) {
        let turn = view.text(Field::ScopeTurnId);
        let turn = turn.as_deref().unwrap_or(spine.turn_id.as_str());
        tell(&base_key(ItemKind::Call, turn, &tool));
    }
}

fn sibling(base: &str, kind: ItemKind) -> String {
    let rest = base.split_once(':').map_or(base, |(_, rest)| rest);
    format!("{}:{rest}", kind.as_str())
}

/// An item, and where the text of its open lanes ends: their last chunks' ends.
#[derive(Debug)]
struct Known {
    item: Item,
    ends: Vec<(LanePart, u64)>,
    change: Change,
}

/// What has become of an item since the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    New,
    Changed,
}

impl Known {
    /// Where the text of a lane ends.
    fn end(&mut self, lane: LanePart) -> &mut u64 {
        let at = match self.ends.iter().position(|(of, _)| *of == lane) {
            Some(at) => at,
            None => {
                self.ends.push((lane, 0));
                self.ends.len() - 1
            }
        };
        &mut self.ends[at].1
    }

    /// Whether the item has to be written, and whether as a new one.
    fn take_change(&mut self) -> Option<bool> {
        let change = std::mem::replace(&mut self.change, Change::None);
        (change != Change::None).then_some(change == Change::New)
    }
}

/// Everything that is stored under the hash of an identity.
#[derive(Debug)]
pub(crate) struct Stored {
    hash: u64,
    items: Vec<Known>,
}

impl Stored {
    /// Reads it as it was at an ordinal.
    pub(crate) fn read(line: &Line<'_>, hash: u64, until: u64) -> Result<Self, StoreError> {
        let mut items = Vec::new();
        for mut item in line.items_by_hash(hash)? {
            if item.position.ordinal > until {
                continue;
            }
            if until != u64::MAX {
                item = line.item_at(item, until)?;
            }
            let mut ends = Vec::new();
            for lane in item.open_lanes(u64::MAX) {
                if let Some(seg) = line.last_seg(item.position, lane, until)? {
                    ends.push((lane, seg.before + seg.bytes));
                }
            }
            items.push(Known {
                item,
                ends,
                change: Change::None,
            });
        }
        Ok(Self { hash, items })
    }
}

/// A hash that is one already.
#[derive(Debug, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash64(bytes);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Hashes of identities.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<Hashed>>;

/// The items that are known, with what indexing has changed on top.
#[derive(Debug, Default)]
pub(crate) struct Items {
    /// By the hash of the identity: all that is stored under it.
    known: HashMap<u64, Vec<Known>, BuildHasherDefault<Hashed>>,
    /// Every identity that may be stored; `None` where any may be.
    seen: Option<Hashes>,
    ordinals: HashMap<String, u64>,
    /// The items that are to be written, and the hashes of their identities.
    touched: Vec<(Position, u64)>,
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
        let known = self.known.get(&hash64(base.as_bytes()));
        known
            .into_iter()
            .flatten()
            .map(|known| &known.item)
            .filter(|item| item.base() == base)
            .cloned()
            .collect()
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

    /// Starts to make an index anew. `seen` holds the identities of the logs
    /// from which this one inherits: no other one is stored until it is indexed
    /// here.
    pub(crate) fn anew(count: u64, base: u64, seen: Hashes) -> Self {
        Self {
            seen: Some(seen),
            ..Self::new(count, base)
        }
    }

    /// Learns what is stored of the wanted identities.
    pub(crate) fn fetch(&mut self, line: &Line<'_>, wanted: &Wanted) -> Result<(), StoreError> {
        for base in &wanted.bases {
            let hash = hash64(base.as_bytes());
            if !self.is_known(hash) {
                self.learn(Stored::read(line, hash, self.until)?);
            }
        }
        Ok(())
    }

    /// The hashes of the identities that an event asks for and that may be
    /// stored, but are not known.
    pub(crate) fn missing(
        &self,
        claims: &Claims,
        view: &EventView<'_>,
        spine: &Spine,
        tail: &Tail,
    ) -> Vec<u64> {
        let mut missing = Vec::new();
        let mut look = |base: &str| {
            let hash = hash64(base.as_bytes());
            if !self.is_known(hash) {
                missing.push(hash);
            }
        };
        identities(claims, view, spine, &mut look);
        if claims.request.is_some() {
            let decided = tail
                .requests
                .iter()
                .filter(|request| claims.request.as_deref() == Some(&*request.request_id));
            for call in decided.filter_map(|request| request.call.as_deref()) {
                look(call);
            }
        }
        missing
    }

    /// Learns what is stored of an identity.
    pub(crate) fn learn(&mut self, stored: Stored) {
        self.known.insert(stored.hash, stored.items);
    }

    /// The ordinal as of which stored items are seen.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// Whether all that is stored under a hash is in memory, or nothing is.
    fn is_known(&self, hash: u64) -> bool {
        let seen = self.seen.as_ref();
        self.known.contains_key(&hash) || seen.is_some_and(|seen| !seen.contains(&hash))
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
        let claims = claims(view, &run.spine, run.inline);
        self.index_claims(&claims, view, run, ordinal, tail)
    }

    /// The same, for an event whose claims are known.
    pub(crate) fn index_claims(
        &mut self,
        claims: &Claims,
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
        let assigned = assign(claims, &placed, tail, self);
        self.remember(view, run, claims, &placed, tail);
        for item in assigned.items {
            let known = self.put(item);
            let position = known.item.position;
            if let Some(chunk) = assigned.chunk.filter(|chunk| chunk.position == position) {
                let lane = (chunk.lane, chunk.index);
                let bytes = chunk_len(view);
                let end = known.end(lane);
                let before = *end;
                *end += bytes;
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

    fn put(&mut self, mut item: Item) -> &mut Known {
        let mut is_new = item.number == 0;
        if is_new {
            self.count += 1;
            item.number = self.count;
        }
        is_new |= item.position.ordinal <= self.base;
        let hash = hash64(item.base().as_bytes());
        let known = self.known.entry(hash).or_default();
        let at = known
            .iter()
            .position(|known| known.item.position == item.position);
        let position = item.position;
        let at = match at {
            Some(at) => {
                known[at].item = item;
                at
            }
            None => {
                if let Some(seen) = &mut self.seen {
                    seen.insert(hash);
                }
                known.push(Known {
                    item,
                    ends: Vec::new(),
                    change: Change::None,
                });
                known.len() - 1
            }
        };
        let known = &mut known[at];
        if known.change == Change::None {
            self.touched.push((position, hash));
        }
        // An item that is new since the last write stays new when it changes.
        if is_new {
            known.change = Change::New;
        } else if known.change == Change::None {
            known.change = Change::Changed;
        }
        known
    }

    /// Takes what indexing has changed since the last time.
    pub(crate) fn take_writes(&mut self) -> (Vec<ItemWrite>, Vec<SegRow>) {
        self.take_slice(0)
    }

    /// The same, and forgets the items to which nothing came from an ordinal
    /// on: for long rebuilds.
    pub(crate) fn take_slice(&mut self, recent: u64) -> (Vec<ItemWrite>, Vec<SegRow>) {
        let is_recent = |known: &Known| known.item.revision >= recent;
        let mut writes = Vec::with_capacity(self.touched.len());
        for (position, hash) in self.touched.drain(..) {
            let Entry::Occupied(mut under) = self.known.entry(hash) else {
                continue;
            };
            // All that is stored under a hash is known, or nothing.
            if under.get().iter().any(is_recent) {
                let known = under.get_mut().iter_mut();
                for known in known.filter(|known| known.item.position == position) {
                    if let Some(is_new) = known.take_change() {
                        let item = known.item.clone();
                        writes.push(ItemWrite { item, is_new });
                    }
                }
            } else {
                for mut known in under.remove() {
                    if let Some(is_new) = known.take_change() {
                        let item = known.item;
                        writes.push(ItemWrite { item, is_new });
                    }
                }
            }
        }
        if recent > 0 {
            self.known.retain(|_, known| known.iter().any(is_recent));
            self.ordinals.clear();
        }
        writes.sort_by_key(|write| write.item.position);
        (writes, std::mem::take(&mut self.segs))
    }

    /// The hashes of all identities, where an index was made anew.
    pub(crate) fn into_seen(self) -> Hashes {
        self.seen.unwrap_or_default()
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
