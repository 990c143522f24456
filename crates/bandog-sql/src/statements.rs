//! The SQL statements, without the comments at the beginning of their files.

/// Declares the statements.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $file:literal,)+) => {
        /// The text of each statement. A test can change a text.
        #[derive(Debug, Clone)]
        pub(crate) struct Statements {
            $($(#[$doc])* pub(crate) $name: String,)+
            /// As `claim`, but it waits for the rows of leases that another transaction has locked. It does not wait for the
            /// rows of fences: transactions of users keep them for any time.
            pub(crate) claim_waiting: String,
        }

        impl Statements {
            /// The statements for PostgreSQL.
            pub(crate) fn postgres() -> Self {
                Self::with_waiting_claims(Self {
                    $($name: body(include_str!(concat!("../sql/postgres/", $file, ".sql"))).to_owned(),)+
                    claim_waiting: String::new(),
                })
            }

            /// The same statements with this change of each text.
            #[cfg(test)]
            pub(crate) fn changed(self, change: impl Fn(&str) -> String) -> Self {
                Self::with_waiting_claims(Self {
                    $($name: change(&self.$name),)+
                    claim_waiting: String::new(),
                })
            }
        }
    };
}

statements! {
    schema: "schema",
    server: "server",
    claim: "claim",
    release: "release",
    renew: "renew",
    insert: "insert",
    /// Reads locks, and locks the rows of their leases and fences.
    lock: "lock",
    lock_leases: "lock_leases",
    /// Reads locks, and locks the rows of their leases for other writers.
    hold_leases: "hold_leases",
    write: "write",
    want: "want",
    /// Checks a hold in a transaction of the user.
    fence: "fence",
    /// Creates a record in a transaction of the user.
    mark: "mark",
    notify: "notify",
    show: "show",
    forget: "forget",
    announce: "announce",
    prune: "prune",
    withdraw: "withdraw",
    members: "members",
    /// Keeps a setting.
    setting: "setting",
    /// Reads a setting.
    meta: "meta",
    lock_records: "lock_records",
    records: "records",
    create_records: "create_records",
    put_records: "put_records",
    put_lines: "put_lines",
    clear_lines: "clear_lines",
    delete_records: "delete_records",
    names: "names",
    history: "history",
    time: "time",
    settings: "settings",
}

impl Statements {
    fn with_waiting_claims(mut self) -> Self {
        self.claim_waiting =
            self.claim.replace("for update of l, f skip locked", "for update of l for update of f skip locked");
        self
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
