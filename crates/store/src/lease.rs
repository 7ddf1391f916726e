//! Leases: the right of one open store handle to append to a session. Whether
//! the holder is still there is the engine's answer, never a clock's.

use crate::StoreError;
use crate::engine::{Snapshot, WriteTxn, Writes};
use crate::plan::{session_and_log, session_leased};
use crate::port::{Lease, LeaseInfo};
use crate::rows::SessionRow;
use folio_core::SessionId;

/// The longest name of a holder, in bytes.
const MAX_HOLDER: usize = 256;

fn lease_of(session: &SessionRow) -> Lease {
    Lease {
        owner: session.lease_owner,
        epoch: session.lease_epoch,
    }
}

fn put(txn: &mut dyn WriteTxn, session: SessionRow) -> Result<(), StoreError> {
    txn.apply(&Writes {
        sessions: vec![session],
        ..Writes::default()
    })
}

/// Takes the lease for a handle, if no living one holds it.
pub(crate) fn acquire(
    txn: &mut dyn WriteTxn,
    id: &SessionId,
    holder: &str,
    owner: u64,
    is_alive: &dyn Fn(u64) -> Result<bool, StoreError>,
) -> Result<Lease, StoreError> {
    if holder.is_empty() || holder.len() > MAX_HOLDER {
        let message = format!("a holder's name has 1 to {MAX_HOLDER} bytes");
        return Err(StoreError::invalid("holder_invalid", message));
    }
    let (mut session, _) = session_and_log(txn, id.as_str())?;
    if session.lease_owner != 0 && is_alive(session.lease_owner)? {
        return Err(session_leased(&session));
    }
    session.lease_owner = owner;
    // The epochs of another life of the id are others, so that a lease which
    // somebody kept from then is lost and not this one.
    let first = session.incarnation >> 1;
    session.lease_epoch = session.lease_epoch.max(first) + 1;
    session.lease_holder = holder.to_owned();
    let lease = lease_of(&session);
    put(txn, session)?;
    Ok(lease)
}

/// Gives a lease back, if it is still held.
pub(crate) fn release(
    txn: &mut dyn WriteTxn,
    id: &SessionId,
    lease: Lease,
) -> Result<(), StoreError> {
    let (mut session, _) = session_and_log(txn, id.as_str())?;
    if session.lease_owner == 0 || lease_of(&session) != lease {
        return Ok(());
    }
    session.lease_owner = 0;
    session.lease_holder.clear();
    put(txn, session)
}

/// Who holds the lease of a session.
pub(crate) fn holder(
    snapshot: &dyn Snapshot,
    id: &SessionId,
    is_alive: &dyn Fn(u64) -> Result<bool, StoreError>,
) -> Result<Option<LeaseInfo>, StoreError> {
    let (session, _) = session_and_log(snapshot, id.as_str())?;
    if session.lease_owner == 0 || !is_alive(session.lease_owner)? {
        return Ok(None);
    }
    Ok(Some(LeaseInfo {
        lease: lease_of(&session),
        holder: session.lease_holder,
    }))
}
