//! Why a waiter waits, in words.

use bandog_core::{Holder, Kind, Member, Row, Waiting};

/// Why this call waits: which holders have what it needs, and which places are before its place in the queue. `client`
/// gives the text of a client: from its row in the registry if it is registered, else from its owner in the store.
pub fn wait_reason(
    row: &Row,
    waiting: Waiting<'_>,
    client: impl Fn(Option<&Member>, Option<&str>) -> String,
) -> String {
    let holder = |holder: &Holder| client(holder.member.as_ref(), holder.owner.as_deref());
    let held = match row.kind {
        Some(Kind::Permits { .. }) => "has permits",
        Some(Kind::Read) => "holds the lock as a reader",
        Some(Kind::Write) => "holds the lock as the writer",
        Some(Kind::Mutex | Kind::Fair) | None => "holds the lock",
    };
    let holds = match row.holders.as_slice() {
        [] => "the lock is free at this moment".to_owned(),
        [one] => format!("{} {held}", holder(one)),
        [first, others @ ..] => format!("{} {held}, and so {}", holder(first), others_text(others.len(), "does", "do")),
    };
    match waiting.before {
        [] => holds,
        [before @ .., last] => {
            let last = client(row.client_of(last), Some(last));
            let others = match before.len() {
                0 => String::new(),
                number => format!(", after {}", others_text(number, "", "")),
            };
            format!("{holds}; before it in the queue is {last}{}", others.trim_end())
        }
    }
}

/// `does 1 other`, or `do 3 others`.
fn others_text(number: usize, one: &str, several: &str) -> String {
    let text = if number == 1 { format!("{one} 1 other") } else { format!("{several} {number} others") };
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use bandog_core::{ClientId, Key};

    use super::*;

    fn text(member: Option<&Member>, owner: Option<&str>) -> String {
        member.map_or_else(|| owner.unwrap_or("?").to_owned(), |member| member.host.clone())
    }

    #[test]
    fn a_reason_names_the_holders_and_the_place_before() {
        let ann = Member { host: "ann".into(), ..Member::here(ClientId::random()) };
        let queue = vec!["one".to_owned(), format!("{}:4", ann.id), "three".to_owned()];
        let holders = vec![Holder::new("ben"), Holder::new("cid")];
        let mut row = Row { queue, holders, kind: Some(Kind::Fair), ..Row::free(&Key::new("x").unwrap()) };
        row.add_members(&[ann]);
        let reasons = |row: &Row| row.waiting().map(|waiting| wait_reason(row, waiting, text)).collect::<Vec<_>>();
        assert_eq!(
            reasons(&row),
            [
                "ben holds the lock, and so does 1 other",
                "ben holds the lock, and so does 1 other; before it in the queue is one",
                "ben holds the lock, and so does 1 other; before it in the queue is ann, after 1 other",
            ]
        );
        row.holders.truncate(1);
        assert_eq!(reasons(&row)[0], "ben holds the lock");
        row.holders.clear();
        assert_eq!(reasons(&row)[0], "the lock is free at this moment");
    }
}
