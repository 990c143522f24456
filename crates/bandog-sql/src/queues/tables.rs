//! The tables of work queues. They are created when a client first uses a queue.
//!
//! They have a layout. In the layout 2, payloads may be envelopes, and the table of the queues has another name, so that a program
//! that does not know envelopes can do nothing. A session reads which tables there are. If another one changes the layout later, its
//! next statement about queues fails, and the query reads it again.

use async_trait::async_trait;
use bandog_core::{
    Error, ErrorKind,
    queues::{LAYOUT, WorkerRow, read_worker_rows},
};

use crate::{context::Context, fault::Fault, job::Query, options::Dialect, schema, session::Link};

/// The names of the tables, without their common beginning, and the name of the first column of each.
const NAMES: [(&str, &str); 4] =
    [("work_queues", "number"), ("work", "queue"), ("work_body", "queue"), ("work_kept", "queue")];
/// The name of the first table in the layout 1.
const OLDER_QUEUES: &str = "work_queue";
/// A further table of MySQL and MariaDB.
#[cfg(feature = "mysql")]
const LOCKS: (&str, &str) = ("work_lock", "number");

/// The tables of this layout, and the name of the first column of each.
pub(crate) fn tables(dialect: Dialect, prefix: &str, layout: u8) -> impl Iterator<Item = (String, &'static str)> {
    let further = match dialect {
        Dialect::Postgres => None,
        #[cfg(feature = "mysql")]
        Dialect::MySql => Some(LOCKS),
    };
    NAMES.into_iter().chain(further).map(move |(name, column)| {
        let name = if layout < 2 && name == NAMES[0].0 { OLDER_QUEUES } else { name };
        (format!("{prefix}{name}"), column)
    })
}

/// The names of the tables of the newest layout.
pub(crate) fn names(dialect: Dialect, prefix: &str) -> Vec<String> {
    tables(dialect, prefix, LAYOUT).map(|(table, _)| table).collect()
}

/// The layout of the tables. None: they were not created.
pub(crate) async fn layout(link: &Link, context: &Context) -> Result<Option<u8>, Fault> {
    match Found::read(link, context).await {
        Ok(found) => Ok(found.version.is_some().then(|| found.layout())),
        Err(fault) if fault.is_denied() || fault.is_gone() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Creates the tables that are missing, and checks their version, once for each session.
pub(crate) async fn ensure(link: &Link, context: &Context) -> Result<(), Fault> {
    if link.work_layout().is_some() {
        return Ok(());
    }
    let mut found = Found::read(link, context).await?;
    if !found.is_complete() {
        if !context.options.creates_tables {
            return Err(
                missing(context, ErrorKind::Unsupported, "create=false in the URL forbids to create them").into()
            );
        }
        let created = create(link, context, found.layout()).await;
        if created.as_ref().is_err_and(Fault::is_denied) {
            return Err(missing(context, ErrorKind::Denied, "the user may not create them").into());
        }
        created?;
        found = Found::read(link, context).await?;
    }
    match found.version.as_deref() {
        Some("1" | "2") => {
            link.set_work_layout(Some(found.layout()));
            Ok(())
        }
        version => {
            let message = format!(
                "{}: the tables of work queues have version {}, and this program knows version {LAYOUT}; use a newer \
                 bandog",
                context.options.store(),
                version.unwrap_or("unknown")
            );
            Err(Error::new(ErrorKind::Unsupported, message).into())
        }
    }
}

/// Creates the tables of this layout that are missing.
async fn create(link: &Link, context: &Context, layout: u8) -> Result<(), Fault> {
    let texts = context.work.in_layout(Some(layout));
    schema::change_work_tables(link, context, async || {
        link.execute(&texts.shared.schema).await?;
        if layout < LAYOUT { Ok(()) } else { link.execute(&texts.shared.raised).await }
    })
    .await
}

/// Whether a statement has failed because another session has changed the layout. Then the session can be used: it reads the
/// layout again.
pub(crate) async fn was_raised(link: &Link, context: &Context, fault: &Fault) -> Result<bool, Fault> {
    if link.work_layout() != Some(1) || !fault.is_changed() {
        return Ok(false);
    }
    link.roll_back().await?;
    let is_raised = Found::read(link, context).await?.layout() > 1;
    if is_raised {
        link.set_work_layout(None);
    }
    Ok(is_raised)
}

/// A query about queues. It runs again if another session has changed the layout.
pub(crate) struct InLayout<Q>(pub(crate) Q);

#[async_trait]
impl<Q: Query> Query for InLayout<Q> {
    type Output = Q::Output;

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        match self.0.run(link, context).await {
            Err(fault) if was_raised(link, context, &fault).await? => self.0.run(link, context).await,
            done => done,
        }
    }
}

/// Whether the tables keep envelopes. If the session has found older ones, it looks again.
pub(crate) async fn keep_envelopes(link: &Link, context: &Context) -> Result<bool, Fault> {
    if link.work_layout() == Some(1) {
        link.set_work_layout(None);
        ensure(link, context).await?;
    }
    Ok(link.work_layout() != Some(1))
}

/// The error about elements with envelopes in tables of the layout 1.
pub(crate) fn too_old(context: &Context) -> Error {
    let message = format!(
        "{}: the tables of work queues were created by an older version, and cannot keep headers of elements, so nothing was \
         pushed; when no program of an older version uses them, run `bandog doctor --upgrade`",
        context.options.store()
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// Changes the tables to the newest layout. Answer: the layout before.
pub(crate) struct Upgrade;

#[async_trait]
impl Query for Upgrade {
    type Output = u8;

    async fn run(&self, link: &Link, context: &Context) -> Result<u8, Fault> {
        if layout(link, context).await? != Some(1) {
            return Ok(LAYOUT);
        }
        let rows = link.query(&context.work.in_layout(Some(1)).shared.all_workers, &[]).await?;
        let texts_of: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        // A text of a newer program is left out.
        let workers = texts_of.iter().filter_map(|text| read_worker_rows([text.as_str()]).ok()).flatten();
        let older: Vec<WorkerRow> = workers.filter(|worker| worker.layout < LAYOUT).collect();
        if let Some(first) = older.first() {
            let message = format!(
                "{}: {} workers of an older version are registered, such as {}, so nothing was changed; stop them, and try again a \
                 minute later",
                context.options.store(),
                older.len(),
                first.place
            );
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        }
        let texts = context.work.in_layout(None);
        schema::change_work_tables(link, context, async || {
            // Another session may have done it.
            if Found::read(link, context).await?.layout() < LAYOUT {
                link.execute(&texts.shared.layout_2).await?;
            }
            link.execute(&texts.shared.raised).await
        })
        .await
        .map_err(|fault| if fault.is_lock_timeout() { in_use(context).into() } else { fault })?;
        link.set_work_layout(None);
        Ok(1)
    }
}

fn in_use(context: &Context) -> Error {
    let message =
        "transactions that are open use the tables of work queues, so nothing was changed; end them, or try again";
    Error::unavailable(format!("{}: {message}", context.options.store()))
}

fn missing(context: &Context, kind: ErrorKind, why: &str) -> Error {
    let (store, tables) = (context.options.store(), names(context.options.dialect, &context.options.tables).join(", "));
    let message = format!(
        "{store}: work queues need the tables {tables}, which are missing, and {why}; an administrator can apply the output \
         of `bandog schema --print`"
    );
    Error::new(kind, message)
}

struct Found {
    /// Whether the tables exist that all layouts have.
    has_others: bool,
    /// Whether the table of queues exists, in the newest layout and in the layout 1.
    has_queues: bool,
    has_older_queues: bool,
    version: Option<String>,
}

impl Found {
    async fn read(link: &Link, context: &Context) -> Result<Self, Fault> {
        let rows = link.query(&context.work.in_layout(None).shared.exist, &[&context.options.schema]).await?;
        let row = rows.first().ok_or(Fault::Broken(None))?;
        Ok(Self {
            has_others: row.try_get(0)?,
            has_queues: row.try_get(1)?,
            has_older_queues: row.try_get(2)?,
            version: row.try_get(3)?,
        })
    }

    /// The layout of the tables that exist, and otherwise the newest one.
    fn layout(&self) -> u8 {
        if self.has_older_queues && !self.has_queues { 1 } else { LAYOUT }
    }

    fn is_complete(&self) -> bool {
        self.has_others && (self.has_queues || self.has_older_queues) && self.version.is_some()
    }
}
