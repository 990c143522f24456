//! The SQL statements, without the comments at the beginning of their files. The cache of the connection finds a
//! prepared statement by comparing texts, so these comments would cost time.

pub(crate) const SCHEMA: &str = include_str!("../sql/schema.sql");
pub(crate) const REGISTRY: &str = include_str!("../sql/registry.sql");
pub(crate) const RECORDS: &str = include_str!("../sql/records.sql");
pub(crate) const WORK: &str = include_str!("../sql/work.sql");
pub(crate) const LOCKS: &str = include_str!("../sql/locks.sql");
/// Reads the numbers in the header of the database that identify the program and the version of the tables.
pub(crate) const IDENTITY: &str = body(include_str!("../sql/identity.sql"));
pub(crate) const LEASE: &str = body(include_str!("../sql/lease.sql"));
/// Reads all leases that have an owner, expired or not.
pub(crate) const HELD: &str = body(include_str!("../sql/held.sql"));
pub(crate) const SIGHTING: &str = body(include_str!("../sql/sighting.sql"));
/// Grants a free lock without reading the row first.
pub(crate) const TAKE: &str = body(include_str!("../sql/take.sql"));
/// Writes a hold: a grant or an offer.
pub(crate) const GRANT: &str = body(include_str!("../sql/grant.sql"));
pub(crate) const RENEW: &str = body(include_str!("../sql/renew.sql"));
/// Frees a lock without a waiters' mark, if this owner holds the lock.
pub(crate) const FREE: &str = body(include_str!("../sql/free.sql"));
/// Frees a lock and removes the waiters' mark.
pub(crate) const RELEASE: &str = body(include_str!("../sql/release.sql"));
/// Changes the waiters' mark from starving to waiting.
pub(crate) const UNSTARVE: &str = body(include_str!("../sql/unstarve.sql"));
/// Sets the waiters' mark.
pub(crate) const WANT: &str = body(include_str!("../sql/want.sql"));
/// Stores the first sighting of a hold of another boot.
pub(crate) const SEE: &str = body(include_str!("../sql/see.sql"));
/// Deletes the sightings of a hold that has ended.
pub(crate) const FORGET: &str = body(include_str!("../sql/forget.sql"));
/// Reads the holds and the places of a lock that is not a mutex.
pub(crate) const CLAIMS: &str = body(include_str!("../sql/claims.sql"));
/// Reads one hold or one place.
pub(crate) const CLAIM: &str = body(include_str!("../sql/claim.sql"));
/// Reads the holds of a lock that is not a mutex.
pub(crate) const HOLDS: &str = body(include_str!("../sql/holds.sql"));
/// Reads the first places of a lock.
pub(crate) const FIRST_PLACES: &str = body(include_str!("../sql/first_places.sql"));
/// Counts the places before a place of the same lock.
pub(crate) const COUNT_PLACES: &str = body(include_str!("../sql/count_places.sql"));
pub(crate) const ALL_CLAIMS: &str = body(include_str!("../sql/all_claims.sql"));
/// Checks whether the owner of a lease holds the name as a fair mutex.
pub(crate) const IS_FAIR: &str = body(include_str!("../sql/is_fair.sql"));
/// Writes a new hold or a new place.
pub(crate) const PUT_CLAIM: &str = body(include_str!("../sql/put_claim.sql"));
pub(crate) const EXTEND_CLAIM: &str = body(include_str!("../sql/extend_claim.sql"));
pub(crate) const END_CLAIM: &str = body(include_str!("../sql/end_claim.sql"));
/// Reads the number of permits of a semaphore.
pub(crate) const LIMIT: &str = body(include_str!("../sql/limit.sql"));
pub(crate) const SET_LIMIT: &str = body(include_str!("../sql/set_limit.sql"));
/// Reads a part of all names, with their last fences.
pub(crate) const FENCES: &str = body(include_str!("../sql/fences.sql"));
/// Deletes the row of a lock.
pub(crate) const DROP_LEASE: &str = body(include_str!("../sql/drop_lease.sql"));
/// Deletes the holds and the places of a lock.
pub(crate) const DROP_CLAIMS: &str = body(include_str!("../sql/drop_claims.sql"));
/// Deletes the number of permits of a semaphore.
pub(crate) const DROP_LIMIT: &str = body(include_str!("../sql/drop_limit.sql"));
/// Deletes the sightings of all holds and places of a lock.
pub(crate) const DROP_SIGHTINGS: &str = body(include_str!("../sql/drop_sightings.sql"));
pub(crate) const REGISTER: &str = body(include_str!("../sql/register.sql"));
pub(crate) const DEREGISTER: &str = body(include_str!("../sql/deregister.sql"));
pub(crate) const MEMBERS: &str = body(include_str!("../sql/members.sql"));
/// Deletes the expired rows of clients.
pub(crate) const PRUNE: &str = body(include_str!("../sql/prune.sql"));
pub(crate) const RECORD: &str = body(include_str!("../sql/record.sql"));
/// Writes a record.
pub(crate) const PUT: &str = body(include_str!("../sql/put.sql"));
/// Writes a line of a record's history.
pub(crate) const NOTE: &str = body(include_str!("../sql/note.sql"));
pub(crate) const DELETE: &str = body(include_str!("../sql/delete.sql"));
/// Deletes the history of a record.
pub(crate) const CLEAR: &str = body(include_str!("../sql/clear.sql"));
pub(crate) const NAMES: &str = body(include_str!("../sql/names.sql"));
pub(crate) const HISTORY: &str = body(include_str!("../sql/history.sql"));
pub(crate) const WORK_QUEUE: &str = body(include_str!("../sql/work_queue.sql"));
pub(crate) const WORK_ADD_QUEUE: &str = body(include_str!("../sql/work_add_queue.sql"));
pub(crate) const WORK_SET_QUEUE: &str = body(include_str!("../sql/work_set_queue.sql"));
pub(crate) const WORK_QUEUES: &str = body(include_str!("../sql/work_queues.sql"));
pub(crate) const WORK_ALL_WORKERS: &str = body(include_str!("../sql/work_all_workers.sql"));
pub(crate) const QUEUE_LAYOUT: &str = body(include_str!("../sql/queue_layout.sql"));
pub(crate) const WORK_ELEMENT: &str = body(include_str!("../sql/work_element.sql"));
pub(crate) const WORK_FIRST: &str = body(include_str!("../sql/work_first.sql"));
pub(crate) const WORK_AFTER: &str = body(include_str!("../sql/work_after.sql"));
pub(crate) const WORK_BLOCKED: &str = body(include_str!("../sql/work_blocked.sql"));
pub(crate) const WORK_HAS_HEAD: &str = body(include_str!("../sql/work_has_head.sql"));
pub(crate) const WORK_TAKEN_BY: &str = body(include_str!("../sql/work_taken_by.sql"));
pub(crate) const WORK_OTHER_BOOTS: &str = body(include_str!("../sql/work_other_boots.sql"));
pub(crate) const WORK_INSERT: &str = body(include_str!("../sql/work_insert.sql"));
pub(crate) const WORK_UPDATE: &str = body(include_str!("../sql/work_update.sql"));
pub(crate) const WORK_DELETE: &str = body(include_str!("../sql/work_delete.sql"));
pub(crate) const WORK_COUNT: &str = body(include_str!("../sql/work_count.sql"));
pub(crate) const WORK_ADD_BODY: &str = body(include_str!("../sql/work_add_body.sql"));
pub(crate) const WORK_BODY: &str = body(include_str!("../sql/work_body.sql"));
pub(crate) const WORK_PAYLOAD_LEN: &str = body(include_str!("../sql/work_payload_len.sql"));
pub(crate) const WORK_SET_TEXTS: &str = body(include_str!("../sql/work_set_texts.sql"));
pub(crate) const WORK_DELETE_BODY: &str = body(include_str!("../sql/work_delete_body.sql"));
pub(crate) const WORK_KEPT: &str = body(include_str!("../sql/work_kept.sql"));
pub(crate) const WORK_KEEP: &str = body(include_str!("../sql/work_keep.sql"));
pub(crate) const WORK_FORGET_ONE: &str = body(include_str!("../sql/work_forget_one.sql"));
pub(crate) const WORK_EXPIRED: &str = body(include_str!("../sql/work_expired.sql"));
pub(crate) const WORK_WORKERS: &str = body(include_str!("../sql/work_workers.sql"));
/// Begins a part of a transaction that can be rolled back alone.
pub(crate) const PART: &str = body(include_str!("../sql/part.sql"));
/// Ends the part, and keeps its writes in the transaction.
pub(crate) const KEEP: &str = body(include_str!("../sql/keep.sql"));
/// Rolls back the part.
pub(crate) const UNDO: &str = body(include_str!("../sql/undo.sql"));

/// The text after the leading comment lines.
const fn body(file: &str) -> &str {
    let (mut rest, mut at) = (file, 0);
    while rest.as_bytes()[0] == b'-' {
        while rest.as_bytes()[at] != b'\n' {
            at += 1;
        }
        (_, rest) = rest.split_at(at + 1);
        at = 0;
    }
    rest
}
