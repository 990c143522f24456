//! The statements of work queues, without the comments at the beginning of their files.

use bandog_core::queues::LAYOUT;

use crate::{
    options::{Dialect, SqlOptions},
    statements::body,
};

/// Declares the statements. Each one is a file with its name.
macro_rules! texts {
    ($name:ident in $folder:literal: $($text:ident,)+) => {
        /// The statements of one kind of server.
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $(pub(crate) $text: String,)+
        }

        impl $name {
            /// The statements for tables of a layout whose names begin with `tables`.
            fn named(tables: &str, layout: u8) -> Self {
                let text = |file: &str| named(file, tables, layout);
                Self { $($text: text(include_str!(concat!("../../sql/", $folder, "/work_", stringify!($text), ".sql"))),)+ }
            }
        }
    };
}

/// Declares statements that are the same for callers on all servers.
macro_rules! shared {
    ($($text:ident,)+) => {
        /// Statements whose parameters and results are the same on all servers.
        #[derive(Debug, Default)]
        pub(crate) struct Shared {
            $(pub(crate) $text: String,)+
        }

        impl Shared {
            /// The statements for tables of a layout whose names begin with `tables`.
            pub(super) fn named(dialect: Dialect, tables: &str, layout: u8) -> Self {
                let text = |file: &str| named(file, tables, layout);
                match dialect {
                    Dialect::Postgres => Self {
                        $($text: text(include_str!(concat!("../../sql/postgres/work_", stringify!($text), ".sql"))),)+
                    },
                    #[cfg(feature = "mysql")]
                    Dialect::MySql => Self {
                        $($text: text(include_str!(concat!("../../sql/mysql/work_", stringify!($text), ".sql"))),)+
                    },
                }
            }
        }
    };
}

shared! {
    schema,
    exist,
    create,
    find,
    ready,
    others,
    status,
    workers,
    crowd,
    queues,
    all_workers,
    layout_2,
    raised,
}

#[cfg(feature = "mysql")]
texts! { MySql in "mysql":
    queue,
    lock_queue,
    by_id,
    free_by_id,
    seen_by_id,
    due,
    ready_to_take,
    taken,
    payloads,
    around,
    lock_keys,
    of_key,
    put,
    put_body,
    texts,
    progress,
    extend,
    remove,
    keep,
    drop,
    old,
    remember,
    once,
    signals,
    settings,
    first,
    user_number,
    user_remember,
    user_new,
    user_once,
    user_mine,
    user_body,
    user_push,
    user_signal,
    user_pushed,
    user_held,
    user_result,
    user_done,
    user_removed,
}

texts! { Postgres in "postgres":
    push,
    given,
    given_user,
    pushed,
    pushed_user,
    once,
    claim,
    lock_keys,
    lock,
    wait,
    lock_queue,
    decide,
    before,
    wake,
    take,
    taken,
    extend,
    settle,
    done_user,
    signals,
    unsignal,
    remove,
    cancel,
    bury,
    retry,
    first,

    settings,
    worker,
    forget,
}

impl Postgres {
    /// The statement that pushes in a transaction of bandog.
    fn own_push(&self) -> String {
        let text = self.push.replace("$given", &self.given).replace("$answer", &self.pushed);
        text.replace("$locked", "true")
    }

    /// The statement that pushes in a transaction of the user.
    fn user_push(&self) -> String {
        let text = self.push.replace("$given", &self.given_user).replace("$answer", &self.pushed_user);
        text.replace("$locked", "false")
    }

    /// The statements, with that of a push filled in.
    pub(super) fn filled(tables: &str, layout: u8) -> Self {
        let texts = Self::named(tables, layout);
        // In a transaction of the user, the search path is not that of bandog.
        let qualified = |text: &str| text.replace(&format!(" {tables}work"), &format!(" $schema.{tables}work"));
        let (push, user) = (texts.own_push(), qualified(&texts.user_push()));
        let done_user = qualified(&texts.done_user);
        Self { push, pushed_user: user, done_user, ..texts }
    }
}

/// The statement in a file. The files have the names of the newest layout.
fn named(file: &str, tables: &str, layout: u8) -> String {
    let text =
        if layout < 2 { body(file).replace("bandog_work_queues", "bandog_work_queue") } else { body(file).to_owned() };
    text.replace(SqlOptions::TABLES, tables)
}

#[cfg(feature = "mysql")]
impl MySql {
    /// The statements.
    pub(super) fn filled(tables: &str, layout: u8) -> Self {
        Self::named(tables, layout)
    }
}

/// The statements that create the tables of the newest layout.
pub(crate) fn schema(dialect: Dialect, tables: &str) -> String {
    Shared::named(dialect, tables, LAYOUT).schema
}
