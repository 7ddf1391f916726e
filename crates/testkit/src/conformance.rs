//! The registry of cases, and the harness that runs them as real tests.

use async_trait::async_trait;
use folio_store::{Store, StoreError};
use libtest_mimic::{Arguments, Failed, Trial};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

/// A place where stores can be opened, closed and opened again.
#[async_trait]
pub trait StorePlace: Send + Sync {
    /// Opens the store of this place: empty the first time, with everything
    /// that was acknowledged afterwards where the adapter is durable.
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError>;
}

/// Makes fresh places, one for each case.
pub type Factory = fn() -> Box<dyn StorePlace>;

/// What a case gives its harness: nothing, or why it failed.
pub type Outcome = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A named case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// `group/what_holds`, such as `append/is_atomic_per_batch`.
    pub name: &'static str,
    /// The test.
    pub run: fn(Box<dyn StorePlace>) -> Outcome,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every case of the suite.
pub fn cases() -> Vec<Case> {
    crate::cases::all()
}

/// Runs the suite against an adapter, with the arguments of a test binary.
pub fn run(factory: Factory) -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = cases()
        .into_iter()
        .map(|case| {
            Trial::test(case.name, move || {
                tokio::runtime::Builder::new_current_thread()
                    .build()
                    .map_err(|error| Failed::from(error.to_string()))?
                    .block_on((case.run)(factory()))
                    .map_err(Failed::from)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Makes a [`Case`] of an async function that takes the place and may panic or
/// answer an error.
#[macro_export]
macro_rules! case {
    ($group:literal, $function:ident) => {
        $crate::conformance::Case {
            name: concat!($group, "/", stringify!($function)),
            run: |place| Box::pin($function(place)),
        }
    };
}

/// Makes the cases of a group of async functions that take the place and say
/// by a panic that something does not hold.
#[macro_export]
macro_rules! cases {
    ($group:literal: $($function:ident),* $(,)?) => {
        &[$($crate::conformance::Case {
            name: concat!($group, "/", stringify!($function)),
            run: |place| Box::pin(async move {
                $function(place).await;
                Ok(())
            }),
        }),*]
    };
}
