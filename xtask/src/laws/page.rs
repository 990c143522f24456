//! The page as Markdown.

use super::code::Law;
use super::{BACKENDS, Outcome, Outcomes};

/// The sections of the page, with the first law of each.
const SECTIONS: &[(&str, u32)] = &[("Locks", 1), ("Records", 101), ("Latches", 181)];

/// Names for several stores, with their headings. A name is used if all of its stores have the same outcome.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "mutex modes",
        &[
            "Redis setnx",
            "PostgreSQL shedlock",
            "PostgreSQL rowlock",
            "PostgreSQL advisory",
            "MySQL shedlock",
            "MySQL rowlock",
            "MySQL advisory",
        ],
    ),
    ("session modes", &["PostgreSQL rowlock", "PostgreSQL advisory", "MySQL rowlock", "MySQL advisory"]),
    ("quorum", &["quorum of Redis", "quorum of memory"]),
];

/// The beginning of the line with the headings of all stores.
const STORES: &str = "Stores: ";
/// Before the stores on which a law passed for some kinds of locks.
const IN_PART: &str = " *In part*: ";
/// Before the stores that do not keep a law.
const EXCEPT: &str = " *Except*: ";
/// Before the stores without a result.
const NO_RESULT: &str = " *No result*: ";

/// The page: a line for each law, which names the stores that do not keep the whole law.
pub(super) fn render(laws: &[Law], outcomes: &Outcomes) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut page = head();
    let mut sections = SECTIONS.iter().peekable();
    for law in laws {
        if let Some((title, _)) = sections.next_if(|(_, first)| *first <= law.number) {
            page += &format!("\n## {title}\n\n");
        }
        page += &format!("- {} `{}`: {}.", law.number, law.name, law.text);
        for label in [IN_PART, EXCEPT, NO_RESULT] {
            let entries: Vec<_> = entries(law, label, outcomes)
                .into_iter()
                .map(|(reason, stores)| match reason {
                    "" => named(&stores),
                    reason => format!("{} ({})", named(&stores), number(&mut reasons, reason)),
                })
                .collect();
            if !entries.is_empty() {
                page += &format!("{label}{}", entries.join("; "));
            }
        }
        page += "\n";
    }
    page += "\n## Reasons\n\n";
    for (at, reason) in reasons.iter().enumerate() {
        page += &format!("{}. {reason}\n", at + 1);
    }
    page
}

/// The stores of a law under this label, by their reasons.
fn entries<'a>(law: &Law, label: &str, outcomes: &'a Outcomes) -> Vec<(&'a str, Vec<&'static str>)> {
    let mut entries: Vec<(&str, Vec<&str>)> = Vec::new();
    for backend in BACKENDS {
        let (its_label, reason) = match outcomes.get(&(law.name.clone(), backend.heading)) {
            Some(Outcome::Passed) => continue,
            Some(Outcome::InPart(reason)) => (IN_PART, reason.as_str()),
            Some(Outcome::NotPromised(reason)) => (EXCEPT, reason.as_str()),
            None => (NO_RESULT, ""),
        };
        if its_label != label {
            continue;
        }
        match entries.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, stores)) => stores.push(backend.heading),
            None => entries.push((reason, vec![backend.heading])),
        }
    }
    entries
}

/// The names of these stores: first those of groups, then the others.
fn named(stores: &[&'static str]) -> String {
    let (mut names, mut rest) = (Vec::new(), stores.to_vec());
    for (name, members) in GROUPS {
        if members.iter().all(|member| rest.contains(member)) {
            names.push(*name);
            rest.retain(|store| !members.contains(store));
        }
    }
    names.extend(rest);
    names.join(", ")
}

/// The headings of the stores that these names mean.
fn stores(names: &str) -> Vec<&'static str> {
    let mut stores = Vec::new();
    for name in names.split(", ") {
        let members = GROUPS.iter().find(|(group, _)| *group == name).map(|(_, members)| members.iter().copied());
        stores.extend(members.into_iter().flatten());
        stores.extend(BACKENDS.iter().map(|backend| backend.heading).find(|heading| *heading == name));
    }
    stores
}

/// The number of a reason. A new reason gets the next number.
fn number<'a>(reasons: &mut Vec<&'a str>, reason: &'a str) -> usize {
    let known = reasons.iter().position(|known| *known == reason);
    known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    }) + 1
}

/// The outcomes in the page.
pub(super) fn parse(page: &str) -> Outcomes {
    let reasons: Vec<_> = page.split("## Reasons").nth(1).unwrap_or_default().lines().collect();
    let reason = |number: &str| {
        let start = format!("{number}. ");
        reasons.iter().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    let all = page.lines().find_map(|line| line.strip_prefix(STORES)).unwrap_or_default();
    let all = stores(all.trim_end_matches('.'));
    let mut outcomes = Outcomes::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("- ")) {
        let Some((name, _)) = line.split_once(" `").and_then(|(_, rest)| rest.split_once("`: ")) else { continue };
        outcomes.extend(all.iter().map(|store| ((name.to_owned(), *store), Outcome::Passed)));
        for label in [IN_PART, EXCEPT, NO_RESULT] {
            let list = line.split_once(label).map(|(_, rest)| rest.split(" *").next().unwrap_or_default());
            for entry in list.into_iter().flat_map(|list| list.split("; ")) {
                let (names, note) = entry.split_once(" (").unwrap_or((entry, ""));
                let reason = reason(note.trim_end_matches(')'));
                for store in stores(names) {
                    let key = (name.to_owned(), store);
                    match (label, reason.clone()) {
                        (IN_PART, Some(reason)) => outcomes.insert(key, Outcome::InPart(reason)),
                        (EXCEPT, Some(reason)) => outcomes.insert(key, Outcome::NotPromised(reason)),
                        _ => outcomes.remove(&key),
                    };
                }
            }
        }
    }
    outcomes
}

fn head() -> String {
    let all: Vec<_> = BACKENDS.iter().map(|backend| backend.heading).collect();
    let groups: Vec<_> = GROUPS.iter().map(|(name, members)| format!("*{name}* are {}", members.join(", "))).collect();
    format!("{HEAD}\n{STORES}{}.\n\nNames of several stores: {}.\n{NOTES}", all.join(", "), groups.join("; "))
}

const HEAD: &str = "\
# The laws, on every store

Generated by `cargo xtask laws`, which runs the laws of `crates/bandog-conformance/src/laws` on real servers; do not edit.
A full test run fails if a law has another result than this page says.

**Every store keeps every law, except the stores that the line of the law names**, with the number of the [reason](#reasons).
*In part*: the law passed for the kinds of locks that the store has.
*Except*: the store does not promise this, or a test cannot cause it there.
";

const NOTES: &str = "\
The stores with two words are modes: `layout=setnx` on Redis, and `layout=shedlock`, `mode=rowlock` and `mode=advisory` on the databases. A quorum has three nodes.
MySQL stands for runs on MariaDB. Redis with Sentinel has the laws of Redis; its failovers are in the tests of `bandog-redis` and in the storm ([PROOF.md](PROOF.md)).
";
