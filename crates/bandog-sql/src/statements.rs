//! The SQL statements, without the comments at the beginning of their files.

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

            /// The same statements with this change of each text.
            #[cfg(test)]
            pub(crate) fn changed(self, change: impl Fn(&str) -> String) -> Self {
                Self {
                    $($name: change(&self.$name),)+
                    $($pg: change(&self.$pg),)+
                    $(#[cfg(feature = "mysql")] $my: change(&self.$my),)+
                }
            }
        }
    };
}

statements! {
    schema,
    server,
    insert,
    /// Reads locks, and locks the rows of their leases and fences.
    lock,
    lock_leases,
    /// Reads locks, and locks the rows of their leases for other writers.
    hold_leases,
    write,
    want,
    notify,
    /// Reads locks by their names.
    show,
    /// Reads all locks that are not free.
    list,
    forget,
    announce,
    prune,
    withdraw,
    members,
    /// Keeps a setting.
    setting,
    /// Reads a setting.
    meta,
    lock_records,
    records,
    create_records,
    put_records,
    put_lines,
    clear_lines,
    delete_records,
    names,
    history,
    time,
    settings,;
    postgres:
    /// Checks a hold in a transaction of the user.
    fence,
    /// Creates a record in a transaction of the user.
    mark,
    claim,
    release,
    renew,;
    mysql:
    /// Reads the numbers of channels, which notifications raise.
    numbers,
    /// Takes the lock under which one session creates the tables.
    creation_lock,
    creation_unlock,;
}

impl Statements {
    /// Whether a transaction of a user can keep a fence.
    pub(crate) fn can_keep_fences(&self) -> bool {
        !self.fence.is_empty()
    }

    /// Whether there are statements that decide claims, releases and renewals of mutexes.
    pub(crate) fn decide_mutexes(&self) -> bool {
        !self.claim.is_empty()
    }
}

/// The text after the leading comment lines.
fn body(file: &str) -> &str {
    let mut rest = file;
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.trim()
}
