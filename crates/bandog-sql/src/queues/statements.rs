//! The statements of work queues, without the comments at the beginning of their files.

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
            /// The statements for tables whose names begin with `tables`.
            pub(crate) fn named(tables: &str) -> Self {
                let text = |file: &str| body(file).replace(SqlOptions::TABLES, tables);
                Self { $($text: text(include_str!(concat!("../../sql/", $folder, "/work_", stringify!($text), ".sql"))),)+ }
            }
        }
    };
}

texts! { Postgres in "postgres":
    schema,
    exist,
    create,
    push,
    given,
    given_user,
    pushed,
    pushed_user,
    once,
    lock_keys,
    lock,
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
    find,
    ready,
    others,
    status,
    settings,
    worker,
    forget,
    queues,
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
    pub(crate) fn filled(tables: &str) -> Self {
        let texts = Self::named(tables);
        // In a transaction of the user, the search path is not that of bandog.
        let qualified = |text: &str| text.replace(&format!(" {tables}work"), &format!(" $schema.{tables}work"));
        let (push, user) = (texts.own_push(), qualified(&texts.user_push()));
        let done_user = qualified(&texts.done_user);
        Self { push, pushed_user: user, done_user, ..texts }
    }
}

/// The statements that create the tables.
pub(crate) fn schema(dialect: Dialect, tables: &str) -> String {
    match dialect {
        Dialect::Postgres => Postgres::named(tables).schema,
        #[cfg(feature = "mysql")]
        Dialect::MySql => String::new(),
    }
}
