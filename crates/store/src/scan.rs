//! Items of a page, from which whoever asked makes what it needs once the read
//! is over.

#[cfg(feature = "embedded")]
use crate::packed::Packed;
use crate::port::{ItemPage, LoadedItem, ReadStats, SessionInfo};
use crate::rows::RunRow;
use folio_core::reduce::Material;

/// Items of one snapshot, packed.
#[derive(Debug)]
pub struct ItemScan {
    /// The session.
    pub session: SessionInfo,
    /// The watermark.
    pub through: u64,
    /// Whether items lie further in the direction.
    pub more: bool,
    /// Whether items lie on the other side of the first one.
    pub before: bool,
    /// What it cost.
    pub stats: ReadStats,
    pub(crate) items: Scanned,
}

/// An item with everything that its row is made of.
#[derive(Debug)]
pub struct FoundItem<'a> {
    /// Its revision at the watermark.
    pub revision: u64,
    /// The run of its first contribution.
    pub run: &'a RunRow,
    /// What its row is made of: all of it, if nothing is damaged.
    pub material: Material<'a>,
    /// Ordinals that are missing, damaged or of a form that this build does
    /// not know, ascending.
    pub damaged: &'a [u64],
    /// Of its events those with a member that was to be read along and is
    /// missing or damaged. A row that holds such a member cannot be made; one
    /// that leaves a place for it can.
    pub unread: &'a [u64],
}

#[derive(Debug)]
#[cfg_attr(
    feature = "embedded",
    expect(clippy::large_enum_variant, reason = "one for a page, and moved once")
)]
pub(crate) enum Scanned {
    #[cfg(feature = "embedded")]
    Packed(Packed),
    Loaded(Vec<LoadedItem>),
}

impl ItemScan {
    /// Hands the items over, one after another in the direction of the page.
    pub fn show(&self, mut take: impl FnMut(&FoundItem<'_>)) {
        match &self.items {
            #[cfg(feature = "embedded")]
            Scanned::Packed(packed) => packed.show(self.through, &mut take),
            Scanned::Loaded(items) => {
                for item in items {
                    item.show(self.through, &mut take);
                }
            }
        }
    }

    /// The items as values of their own.
    pub fn into_page(self) -> ItemPage {
        ItemPage {
            items: match self.items {
                #[cfg(feature = "embedded")]
                Scanned::Packed(packed) => packed.load(self.through),
                Scanned::Loaded(items) => items,
            },
            session: self.session,
            through: self.through,
            more: self.more,
            before: self.before,
            stats: self.stats,
        }
    }
}

impl From<ItemPage> for ItemScan {
    fn from(page: ItemPage) -> Self {
        Self {
            session: page.session,
            through: page.through,
            more: page.more,
            before: page.before,
            stats: page.stats,
            items: Scanned::Loaded(page.items),
        }
    }
}
