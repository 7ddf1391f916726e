//! A store in memory: for programs and tests that need no file, and the
//! reference model that other adapters are compared with.
//!
//! ```
//! use folio_core::SessionId;
//! use folio_store::{Ledger, NewSession};
//!
//! # tokio_test(async {
//! let store = folio_store_memory::open()?;
//! let session = SessionId::new("chat-1").unwrap();
//! let info = store.create_session(NewSession::native(session)).await?;
//! assert_eq!(info.head, 0);
//! # Ok::<(), folio_store::StoreError>(())
//! # }).unwrap();
//! # fn tokio_test<T>(f: impl Future<Output = T>) -> T {
//! #     let mut f = std::pin::pin!(f);
//! #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop {
//! #         if let std::task::Poll::Ready(out) = f.as_mut().poll(&mut cx) { return out; }
//! #         std::thread::yield_now();
//! #     }
//! # }
//! ```

mod engine;
mod reader;
mod writer;

pub use engine::MemoryEngine;
use folio_store::{Embedded, StoreError};
pub use reader::Tables;

/// A store in memory.
pub type MemoryStore = Embedded<MemoryEngine>;

/// Opens an empty store.
///
/// # Errors
/// `thread_failed` where the system gives no thread.
pub fn open() -> Result<MemoryStore, StoreError> {
    Embedded::new(MemoryEngine::default())
}
