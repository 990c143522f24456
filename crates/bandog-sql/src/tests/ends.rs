//! The last statements of a transaction are sent together with its commit. If one of them is refused, nothing is committed.

use bandog_core::{Key, Line, Record, Swap, Swapped};
use tokio::sync::oneshot;

use super::options;
#[cfg(feature = "mysql")]
use super::options_of_mysql;
use crate::{
    context::Context,
    job::{Query, Request},
    options::SqlOptions,
    records::Read,
    session::Session,
    statements::Statements,
    swaps::SwapCalls,
};

/// Chooses a statement.
type Choice = fn(&mut Statements) -> &mut String;

/// A change of the record `k` that needs three statements: its value and a line of its history, each of this many
/// words, and a notification.
fn change(from: Option<&Record>, to: &str, words: usize) -> Swap {
    let lines = vec![Line { slot: to.into(), value: "line".repeat(words) }];
    let key = Key::new("k").expect("the name is right");
    Swap { lines, notifies: true, ..Swap::new(key, from.map(|record| record.version), to.repeat(words)) }
}

async fn swap(session: &mut Session, context: &Context, swap: Swap) -> bandog_core::Result<Swapped> {
    let (reply, mut answer) = oneshot::channel();
    let mut calls = SwapCalls::default();
    calls.add(vec![swap], reply);
    let failed = session.drive(|link| calls.run(link, context)).await.err().map(|fault| fault.describe("the store"));
    calls.finish(failed);
    answer.try_recv().expect("the swap was answered")?.each.remove(0)
}

async fn record(session: &mut Session, context: &Context) -> Option<Record> {
    let read = Read { keys: vec![Key::new("k").expect("the name is right")], holdings: Vec::new() };
    let reading = session.drive(|link| read.run(link, context)).await.expect("the read succeeds");
    reading.records[0].clone().expect("the row is right")
}

/// Changes a record although the server refuses one of the statements. The change must have no effect, and the session must
/// be able to go on.
async fn changes_nothing(
    options: SqlOptions,
    statements: Statements,
    (refused, right, wrong): (Choice, &str, &str),
    words: usize,
) {
    let context = Context::new(options, statements);
    let mut session = Session::open(&context).await.expect("the server is up");
    let created = swap(&mut session, &context, change(None, "first", words)).await;
    assert!(matches!(created, Ok(Swapped::Done(_))), "{created:?}");
    let before = record(&mut session, &context).await;
    assert!(before.is_some());

    let mut statements = (*context.statements).clone();
    let text = refused(&mut statements);
    assert!(text.contains(right), "{text:?} has no {right:?}");
    *text = text.replacen(right, wrong, 1);
    let broken = Context::new(context.options.clone(), statements);
    let mut other = Session::open(&broken).await.expect("the server is up");
    let failed = swap(&mut other, &broken, change(before.as_ref(), "second", words)).await;
    failed.expect_err("the server refuses a statement");
    other.roll_back().await.expect("the session goes on");
    assert_eq!(record(&mut session, &context).await, before);
    assert_eq!(record(&mut other, &broken).await, before);

    let changed = swap(&mut session, &context, change(before.as_ref(), "third", words)).await;
    assert!(matches!(changed, Ok(Swapped::Done(_))), "no transaction keeps the row: {changed:?}");
    session.close().await;
    other.close().await;
}

// The server refuses these statements when it executes them.
#[tokio::test]
async fn if_a_last_statement_is_refused_nothing_is_committed() {
    let cases: [(Choice, &str, &str); 3] = [
        (|texts| &mut texts.put_records, "= g.version", "= g.version / (length(g.name) - length(g.name))"),
        (|texts| &mut texts.put_lines, "select name, slot, value", "select name, slot, null"),
        (|texts| &mut texts.notify, "pg_notify(channel, '')", "(1 / (length(channel) - length(channel)))"),
    ];
    for case in cases {
        changes_nothing(options(), Statements::postgres(), case, 1).await;
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn if_a_last_statement_on_mysql_is_refused_nothing_is_committed() {
    let cases: [(Choice, &str, &str); 3] = [
        (|texts| &mut texts.put_records, "value = values(value)", "value = null"),
        (|texts| &mut texts.put_lines, "(name, slot, value)", "(name, slot, no_such_column)"),
        (|texts| &mut texts.notify, "(name, number)", "(name, no_such_column)"),
    ];
    for case in cases {
        // Together, the long statements exceed the packet that the server accepts, so they must not be joined.
        for words in [1, 120_000] {
            changes_nothing(options_of_mysql(), Statements::mysql(), case, words).await;
        }
    }
}
