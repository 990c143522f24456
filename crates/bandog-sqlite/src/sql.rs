//! The SQL statements, without the comments at the beginning of their files. A prepared statement is found in the cache
//! by its text, so these comments would cost time.

pub(crate) const SCHEMA: &str = include_str!("../sql/schema.sql");
pub(crate) const REGISTRY: &str = include_str!("../sql/registry.sql");
pub(crate) const RECORDS: &str = include_str!("../sql/records.sql");
pub(crate) const IDENTITY: &str = body(include_str!("../sql/identity.sql"));
pub(crate) const LEASE: &str = body(include_str!("../sql/lease.sql"));
pub(crate) const HELD: &str = body(include_str!("../sql/held.sql"));
pub(crate) const SIGHTING: &str = body(include_str!("../sql/sighting.sql"));
pub(crate) const TAKE: &str = body(include_str!("../sql/take.sql"));
pub(crate) const GRANT: &str = body(include_str!("../sql/grant.sql"));
pub(crate) const RENEW: &str = body(include_str!("../sql/renew.sql"));
pub(crate) const FREE: &str = body(include_str!("../sql/free.sql"));
pub(crate) const RELEASE: &str = body(include_str!("../sql/release.sql"));
pub(crate) const UNSTARVE: &str = body(include_str!("../sql/unstarve.sql"));
pub(crate) const WANT: &str = body(include_str!("../sql/want.sql"));
pub(crate) const SEE: &str = body(include_str!("../sql/see.sql"));
pub(crate) const FORGET: &str = body(include_str!("../sql/forget.sql"));
pub(crate) const ANNOUNCE: &str = body(include_str!("../sql/announce.sql"));
pub(crate) const WITHDRAW: &str = body(include_str!("../sql/withdraw.sql"));
pub(crate) const MEMBERS: &str = body(include_str!("../sql/members.sql"));
pub(crate) const PRUNE: &str = body(include_str!("../sql/prune.sql"));
pub(crate) const RECORD: &str = body(include_str!("../sql/record.sql"));
pub(crate) const PUT: &str = body(include_str!("../sql/put.sql"));
pub(crate) const NOTE: &str = body(include_str!("../sql/note.sql"));
pub(crate) const DELETE: &str = body(include_str!("../sql/delete.sql"));
pub(crate) const CLEAR: &str = body(include_str!("../sql/clear.sql"));
pub(crate) const NAMES: &str = body(include_str!("../sql/names.sql"));
pub(crate) const HISTORY: &str = body(include_str!("../sql/history.sql"));
pub(crate) const PART: &str = body(include_str!("../sql/part.sql"));
pub(crate) const KEEP: &str = body(include_str!("../sql/keep.sql"));
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
