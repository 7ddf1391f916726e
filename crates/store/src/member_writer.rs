//! Writing a large member as it comes.

use crate::StoreError;
use crate::port::{BlobUpload, Store};
use folio_core::json::{Json, quote_inner};
use folio_core::member::{LARGE, MAX_STORED};
use folio_core::stream::JsonStream;
use folio_core::{JsonError, Member, Stored};
use std::fmt;

/// Bytes that are handed to the store at once.
const SLICE: usize = 1 << 20;

/// Takes the JSON text of a value in pieces and keeps it where its size says:
/// a small one is answered whole, a large one is put into the store as it
/// comes, so that no more than a megabyte of it is ever held.
///
/// What a writer leaves behind that is dropped or killed goes with a scrub.
///
/// ```no_run
/// # // Needs a store: see the crate `folio` for a whole program.
/// # async fn keep(store: &dyn folio_store::Store, lines: Vec<String>)
/// # -> Result<folio_core::Member, folio_store::StoreError> {
/// let mut result = folio_store::MemberWriter::new(store);
/// result.json(r#"{"kind":"text","text":""#).await?;
/// for line in lines {
///     result.text(&line).await?;
/// }
/// result.json("\"}").await?;
/// result.finish().await
/// # }
/// ```
pub struct MemberWriter<'a> {
    store: &'a dyn Store,
    json: JsonStream,
    upload: Option<BlobUpload>,
    /// What was not handed over yet.
    rest: String,
    len: u64,
}

impl fmt::Debug for MemberWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberWriter")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<'a> MemberWriter<'a> {
    /// A writer into a store.
    pub fn new(store: &'a dyn Store) -> Self {
        Self {
            store,
            json: JsonStream::default(),
            upload: None,
            rest: String::new(),
            len: 0,
        }
    }

    /// Adds JSON text without white space between values, cut anywhere.
    ///
    /// # Errors
    /// `member_invalid` where it is no such text, `limit_exceeded` beyond
    /// 1 GiB, and those of [`extend_blob`](crate::Blobs::extend_blob).
    pub async fn json(&mut self, text: &str) -> Result<(), StoreError> {
        self.json.feed(text.as_bytes()).map_err(invalid)?;
        self.len += text.len() as u64;
        if self.len > MAX_STORED {
            let message = format!("a member of more than {MAX_STORED} bytes");
            return Err(StoreError::invalid("limit_exceeded", message));
        }
        let mut left = text;
        while !left.is_empty() {
            let (slice, after) = left.split_at(left.floor_char_boundary(SLICE));
            self.rest.push_str(slice);
            left = after;
            if self.rest.len() >= SLICE {
                let upload = match self.upload {
                    Some(upload) => upload,
                    None => self.store.begin_blob().await?,
                };
                self.upload = Some(upload);
                let slice = std::mem::take(&mut self.rest).into_bytes();
                self.store.extend_blob(upload, slice).await?;
            }
        }
        Ok(())
    }

    /// Adds text inside of a JSON string, whose quotation marks come as
    /// [`json`](Self::json) before and behind it.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub async fn text(&mut self, text: &str) -> Result<(), StoreError> {
        let mut rest = text;
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE));
            let mut escaped = String::with_capacity(slice.len());
            quote_inner(slice, &mut escaped);
            self.json(&escaped).await?;
            rest = after;
        }
        Ok(())
    }

    /// Ends the value.
    ///
    /// # Errors
    /// `member_invalid` where it is not complete, and those of
    /// [`finish_blob`](crate::Blobs::finish_blob).
    pub async fn finish(self) -> Result<Member, StoreError> {
        let kind = self.json.finish().map_err(invalid)?;
        if self.len <= LARGE as u64 {
            return Json::from_checked(&self.rest)
                .map(Member::Inline)
                .map_err(invalid);
        }
        let put = match self.upload {
            Some(upload) => {
                if !self.rest.is_empty() {
                    self.store
                        .extend_blob(upload, self.rest.into_bytes())
                        .await?;
                }
                self.store.finish_blob(upload).await?
            }
            None => self.store.put_blob(self.rest.into_bytes()).await?,
        };
        Ok(Member::Stored(Stored {
            len: put.len,
            sha256: put.id.0,
            kind,
        }))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn invalid(error: JsonError) -> StoreError {
    StoreError::invalid("member_invalid", format!("the text of a member is {error}"))
}
