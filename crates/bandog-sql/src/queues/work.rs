//! What the work queues of a backend share.

use super::{hints, statements};
use crate::options::SqlOptions;

/// What the work queues of a backend share.
#[derive(Debug)]
pub(crate) struct Work {
    pub(super) shared: statements::Shared,
    pub(super) postgres: statements::Postgres,
    #[cfg(feature = "mysql")]
    pub(super) mysql: statements::MySql,
    pub(super) hints: hints::AllHints,
}

impl Work {
    pub(crate) fn new(options: &SqlOptions) -> Self {
        Self {
            shared: statements::Shared::named(options.dialect, &options.tables),
            postgres: statements::Postgres::filled(&options.tables),
            #[cfg(feature = "mysql")]
            mysql: statements::MySql::named(&options.tables),
            hints: hints::AllHints::default(),
        }
    }
}
