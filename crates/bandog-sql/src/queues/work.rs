//! What the work queues of a backend share.

use bandog_core::queues::LAYOUT;

use super::{hints, statements};
use crate::{options::SqlOptions, session::Link};

/// What the work queues of a backend share.
#[derive(Debug)]
pub(crate) struct Work {
    newest: Texts,
    older: Texts,
    pub(super) hints: hints::AllHints,
}

/// The statements for tables of a layout.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) shared: statements::Shared,
    pub(super) postgres: statements::Postgres,
    #[cfg(feature = "mysql")]
    pub(super) mysql: statements::MySql,
}

impl Work {
    pub(crate) fn new(options: &SqlOptions) -> Self {
        let texts = |layout| Texts {
            shared: statements::Shared::named(options.dialect, &options.tables, layout),
            postgres: statements::Postgres::filled(&options.tables, layout),
            #[cfg(feature = "mysql")]
            mysql: statements::MySql::filled(&options.tables, layout),
        };
        Self { newest: texts(LAYOUT), older: texts(1), hints: hints::AllHints::default() }
    }

    /// The statements for the tables that this session has found.
    pub(super) fn of(&self, link: &Link) -> &Texts {
        self.in_layout(link.work_layout())
    }

    pub(super) fn in_layout(&self, layout: Option<u8>) -> &Texts {
        if layout == Some(1) { &self.older } else { &self.newest }
    }
}
