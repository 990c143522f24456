//! The SQL statements, without the comments at the beginning of their files.

use crate::options::SqlOptions;

/// Replaces the statements that read or write holds by those for ShedLock's table. The statements that decide mutexes, and
/// those for transactions of users, are left out.
macro_rules! shared {
    ($folder:literal, $statements:expr) => {{
        let text = |file: &str| body(file).to_owned();
        Self {
            shared_table: text(include_str!(concat!("../sql/", $folder, "/shedlock_table.sql"))),
            insert: text(include_str!(concat!("../sql/", $folder, "/shedlock_insert.sql"))),
            lock: text(include_str!(concat!("../sql/", $folder, "/shedlock_lock.sql"))),
            lock_leases: text(include_str!(concat!("../sql/", $folder, "/shedlock_lock_leases.sql"))),
            hold_leases: text(include_str!(concat!("../sql/", $folder, "/shedlock_hold_leases.sql"))),
            exist: text(include_str!(concat!("../sql/", $folder, "/shedlock_exist.sql"))),
            show: text(include_str!(concat!("../sql/", $folder, "/shedlock_show.sql"))),
            list: text(include_str!(concat!("../sql/", $folder, "/shedlock_list.sql"))),
            forget: text(include_str!(concat!("../sql/", $folder, "/shedlock_forget.sql"))),
            write: text(include_str!(concat!("../sql/", $folder, "/shedlock_write.sql"))),
            fence: String::new(),
            claim: String::new(),
            release: String::new(),
            renew: String::new(),
            claim_one: String::new(),
            release_one: String::new(),
            ..$statements
        }
    }};
}

/// Adds the statements that lock a row of another table. In a transaction of the user, only the lease could be checked.
macro_rules! rowlock {
    ($folder:literal, $statements:expr) => {{
        let text = |file: &str| body(file).to_owned();
        Self {
            shared_table: text(include_str!(concat!("../sql/", $folder, "/shedlock_table.sql"))),
            hold_take: text(include_str!(concat!("../sql/", $folder, "/rowlock_take.sql"))),
            hold_insert: text(include_str!(concat!("../sql/", $folder, "/rowlock_insert.sql"))),
            hold_extend: text(include_str!(concat!("../sql/", $folder, "/rowlock_extend.sql"))),
            held_settings: text(include_str!(concat!("../sql/", $folder, "/held_settings.sql"))),
            ..$statements
        }
    }};
}

/// Adds the statements that take an advisory lock.
macro_rules! advisory {
    ($folder:literal, $statements:expr) => {{
        let text = |file: &str| body(file).to_owned();
        Self {
            hold_take: text(include_str!(concat!("../sql/", $folder, "/advisory_take.sql"))),
            hold_extend: text(include_str!(concat!("../sql/", $folder, "/advisory_extend.sql"))),
            held_settings: text(include_str!(concat!("../sql/", $folder, "/held_settings.sql"))),
            hold_free: text(include_str!(concat!("../sql/", $folder, "/advisory_free.sql"))),
            ..$statements
        }
    }};
}

/// Declares the statements. The groups are those that all databases have, those of PostgreSQL, and those of MySQL.
macro_rules! statements {
    (
        $($(#[$doc:meta])* $name:ident,)+;
        postgres: $($(#[$pg_doc:meta])* $pg:ident,)+;
        mysql: $($(#[$my_doc:meta])* $my:ident,)+;
    ) => {
        /// The text of each statement. A test can change a text.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Statements {
            $($(#[$doc])* pub(crate) $name: String,)+
            $($(#[$pg_doc])* pub(crate) $pg: String,)+
            $(#[cfg(feature = "mysql")] $(#[$my_doc])* pub(crate) $my: String,)+
            /// Reads the columns of a table of other programs. Empty in layouts without one.
            pub(crate) shared_table: String,
            /// Takes the lock of the database in the modes that have one. Empty in the others, as the next four.
            pub(crate) hold_take: String,
            /// Creates the row of a lock.
            pub(crate) hold_insert: String,
            /// Keeps the server from ending the session.
            pub(crate) hold_extend: String,
            /// Frees the lock of the database.
            pub(crate) hold_free: String,
            /// Reads the settings that endanger sessions that hold locks.
            pub(crate) held_settings: String,
        }

        impl Statements {
            /// The statements for PostgreSQL.
            pub(crate) fn postgres() -> Self {
                Self {
                    $($name: body(include_str!(concat!("../sql/postgres/", stringify!($name), ".sql"))).to_owned(),)+
                    $($pg: body(include_str!(concat!("../sql/postgres/", stringify!($pg), ".sql"))).to_owned(),)+
                    ..Self::default()
                }
            }

            /// The statements for MySQL and MariaDB.
            #[cfg(feature = "mysql")]
            pub(crate) fn mysql() -> Self {
                Self {
                    $($name: body(include_str!(concat!("../sql/mysql/", stringify!($name), ".sql"))).to_owned(),)+
                    $($my: body(include_str!(concat!("../sql/mysql/", stringify!($my), ".sql"))).to_owned(),)+
                    ..Self::default()
                }
            }

            /// The statements for PostgreSQL, if the holds of mutexes are in ShedLock's table.
            pub(crate) fn postgres_shedlock() -> Self {
                shared!("postgres", Self::postgres())
            }

            /// The statements for MySQL and MariaDB, if the holds of mutexes are in ShedLock's table.
            #[cfg(feature = "mysql")]
            pub(crate) fn mysql_shedlock() -> Self {
                shared!("mysql", Self::mysql())
            }

            /// The statements for PostgreSQL, if a claim also locks a row.
            pub(crate) fn postgres_rowlock() -> Self {
                rowlock!("postgres", Self::postgres())
            }

            /// The statements for PostgreSQL, if a claim also takes an advisory lock.
            pub(crate) fn postgres_advisory() -> Self {
                advisory!("postgres", Self::postgres())
            }

            /// The statements for MySQL and MariaDB, if a claim also locks a row.
            #[cfg(feature = "mysql")]
            pub(crate) fn mysql_rowlock() -> Self {
                rowlock!("mysql", Self::mysql())
            }

            /// The statements for MySQL and MariaDB, if a claim also takes a lock of the server.
            #[cfg(feature = "mysql")]
            pub(crate) fn mysql_advisory() -> Self {
                advisory!("mysql", Self::mysql())
            }

            /// The same statements for tables whose names have another beginning than [`SqlOptions::TABLES`].
            pub(crate) fn named(self, tables: &str) -> Self {
                if tables == SqlOptions::TABLES { self } else { self.changed(|text| text.replace(SqlOptions::TABLES, tables)) }
            }

            /// The same statements with this change of each text. Those of the locks of the database stay: they do not name
            /// the tables of bandog.
            pub(crate) fn changed(self, change: impl Fn(&str) -> String) -> Self {
                Self {
                    $($name: change(&self.$name),)+
                    $($pg: change(&self.$pg),)+
                    $(#[cfg(feature = "mysql")] $my: change(&self.$my),)+
                    shared_table: self.shared_table.clone(),
                    hold_take: self.hold_take.clone(),
                    hold_insert: self.hold_insert.clone(),
                    hold_extend: self.hold_extend.clone(),
                    hold_free: self.hold_free.clone(),
                    held_settings: self.held_settings.clone(),
                }
            }
        }
    };
}

statements! {
    schema,
    server,
    insert,
    /// Claims mutexes without a queue. Empty in layouts without such a statement, as the next three.
    claim,
    release,
    /// Claims one mutex, if it is free.
    claim_one,
    /// Releases one mutex, if no client waits.
    release_one,
    /// Reads locks, and locks the rows of their leases and fences.
    lock,
    lock_leases,
    /// Reads locks, and locks the rows of their leases for other writers.
    hold_leases,
    write,
    want,
    notify,
    /// Finds the locks whose rows [`Self::lock_leases`] reads.
    exist,
    /// Reads locks by their names.
    show,
    /// Reads all locks that are not free.
    list,
    /// Reads a part of all names, with their last fences.
    fences,
    forget,
    register,
    prune,
    deregister,
    members,
    /// Keeps a setting.
    setting,
    /// Reads a setting.
    meta,
    lock_records,
    lock_free_records,
    records,
    create_records,
    put_records,
    put_lines,
    clear_lines,
    delete_records,
    names,
    history,
    time,
    settings,
    /// Reads the settings with which the sessions of other programs begin.
    defaults,
    /// Lists the other sets of bandog's tables in the database.
    others,
    /// Checks a hold in a transaction of the user.
    fence,
    /// Creates a record in a transaction of the user.
    mark,;
    postgres:
    renew,
    /// Reads the rights that the user lacks.
    rights,
    /// Reads the leases for which claims wait. On MySQL, `numbers` reads them.
    polled_leases,;
    mysql:
    /// Reads the numbers of channels, which notifications raise.
    numbers,
    /// Reads names of completed runs that nothing needs any more. On PostgreSQL, `mark` removes them.
    old_marks,
    /// Takes the lock under which one session creates the tables.
    creation_lock,
    creation_unlock,;
}

impl Statements {
    /// Whether a transaction of a user can keep a fence.
    pub(crate) fn can_keep_fences(&self) -> bool {
        !self.fence.is_empty()
    }

    /// The same statements with this change of the texts that name the shared table.
    pub(crate) fn filled(&self, change: impl Fn(&str) -> String) -> Self {
        Self {
            insert: change(&self.insert),
            lock: change(&self.lock),
            lock_leases: change(&self.lock_leases),
            hold_leases: change(&self.hold_leases),
            exist: change(&self.exist),
            show: change(&self.show),
            list: change(&self.list),
            write: change(&self.write),
            hold_take: change(&self.hold_take),
            hold_insert: change(&self.hold_insert),
            ..self.clone()
        }
    }

    /// Whether there are statements that decide claims and releases of mutexes.
    pub(crate) fn decide_mutexes(&self) -> bool {
        !self.claim.is_empty()
    }

    /// Whether there is a statement that renews mutexes.
    pub(crate) fn renew_mutexes(&self) -> bool {
        !self.renew.is_empty()
    }
}

/// The text after the leading comment lines.
pub(crate) fn body(file: &str) -> &str {
    let mut rest = file;
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_keeps_the_usual_names_of_the_tables() {
        let all = [
            Statements::postgres(),
            Statements::postgres_shedlock(),
            Statements::postgres_rowlock(),
            Statements::postgres_advisory(),
            #[cfg(feature = "mysql")]
            Statements::mysql(),
            #[cfg(feature = "mysql")]
            Statements::mysql_shedlock(),
            #[cfg(feature = "mysql")]
            Statements::mysql_rowlock(),
            #[cfg(feature = "mysql")]
            Statements::mysql_advisory(),
        ];
        for statements in all {
            let named = format!("{:?}", statements.named("shop_"));
            assert!(named.contains("shop_lease") && !named.contains(SqlOptions::TABLES), "{named}");
        }
    }
}
