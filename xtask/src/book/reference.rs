//! Generated chapters of the English book: exit codes, the options of URLs, metrics.
//!
//! The names come from the sources of the command and of the stores, the descriptions from the pages. A name that no page
//! describes is an error.

use std::collections::BTreeMap;
use std::fs;

use crate::fault::Fault;

/// A file name, and the function that generates the chapter.
type Chapter = (&'static str, fn() -> Result<String, Fault>);

/// The chapters, in the order of the book.
pub(super) const CHAPTERS: [Chapter; 3] =
    [("exit-codes.md", exit_codes), ("url-options.md", url_options), ("metrics.md", metrics)];

const CODES: &str = "crates/bandog-cli/src/exit_code.rs";
const OPTIONS: &str = "crates/bandog/src/url/option_names.rs";
const OF_DATABASES: &str = "crates/bandog-sql/src/options/names.rs";

/// A store: its title, its page, the section of the page about URLs, and its schemes.
struct Store {
    title: &'static str,
    page: &'static str,
    /// Empty: the part before the first section.
    section: &'static str,
    schemes: &'static [&'static str],
    /// The name in `of_client`.
    client: &'static str,
    /// The page that describes the other options.
    also: Option<&'static str>,
}

const STORES: [Store; 6] = [
    Store {
        title: "Redis",
        page: "redis.md",
        section: "URLs",
        schemes: &[
            "redis",
            "rediss",
            "redis+unix",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ],
        client: "Redis",
        also: None,
    },
    Store {
        title: "A quorum of Redis servers",
        page: "redis-quorum.md",
        section: "",
        schemes: &["redis+quorum", "rediss+quorum"],
        client: "Quorum",
        also: Some("redis.md"),
    },
    Store {
        title: "PostgreSQL",
        page: "postgres.md",
        section: "URL",
        schemes: &["postgres"],
        client: "Postgres",
        also: None,
    },
    Store {
        title: "MySQL and MariaDB",
        page: "mysql.md",
        section: "URL",
        schemes: &["mysql"],
        client: "MySql",
        also: Some("postgres.md"),
    },
    Store {
        title: "ZooKeeper",
        page: "zookeeper.md",
        section: "URL",
        schemes: &["zookeeper", "zookeeper+tls"],
        client: "ZooKeeper",
        also: None,
    },
    Store { title: "SQLite", page: "sqlite.md", section: "URL", schemes: &["sqlite"], client: "Sqlite", also: None },
];

/// The exit codes of the command.
fn exit_codes() -> Result<String, Fault> {
    let source = read(CODES)?;
    let documented = documented_codes(&source);
    for number in numbers(&source) {
        if !documented.iter().any(|(code, _)| code.split(' ').next() == Some(number)) {
            return Err(Fault::failed(format!("{CODES}: the exit code {number} has no description")));
        }
    }
    let mut page = "# Exit codes\n\nThe codes of the command, in the words of its source.\n\n".to_owned();
    page += "| code | meaning |\n|---|---|\n";
    for (code, meaning) in documented {
        page += &format!("| {code} | {meaning} |\n");
    }
    let by_command = tables(&read("docs/command.md")?, "Exit codes", "command.md");
    page += &format!("\n## By command\n\n{}\n", one_of(by_command, "docs/command.md: Exit codes")?);
    Ok(page)
}

/// The options of the URL of each store.
fn url_options() -> Result<String, Fault> {
    let (source, databases) = (read(OPTIONS)?, read(OF_DATABASES)?);
    let mut page =
        "# Options of URLs\n\nThe names are those that the parser accepts; the tables are those of the pages. \
                    Options of other clients, which a `DATABASE_URL` may have, are on the pages.\n"
            .to_owned();
    for store in STORES {
        let path = format!("docs/{}", store.page);
        let text = read(&path)?;
        let described = text.clone() + &store.also.map_or(Ok(String::new()), |page| read(&format!("docs/{page}")))?;
        page += &format!("\n## {}\n\n| URL | options |\n|---|---|\n", store.title);
        for scheme in store.schemes {
            let names = [
                quoted(part(&source, "const OF_ALL", ";\n", OPTIONS)?, "="),
                of_client(part(&source, "fn of_client", "\n}", OPTIONS)?, store.client),
                of_backend(part(&source, "fn of_backend", "\n}", OPTIONS)?, scheme),
                of_database(&databases, store.client)?,
            ]
            .concat();
            if let Some(name) = names.iter().find(|name| !describes(&described, name)) {
                return Err(Fault::failed(format!("{path} does not describe the option {name} of {scheme}:")));
            }
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            page += &format!("| `{scheme}:` | {} |\n", names.join(", "));
        }
        for table in tables(&text, store.section, store.page) {
            page += &format!("\n{table}\n");
        }
        page += &format!("\nMore: [{}]({})", store.page, store.page);
        page += &store.also.map_or(".\n".to_owned(), |also| format!("; the other options: [{also}]({also}).\n"));
    }
    Ok(page)
}

/// The metrics of the two pages that describe them.
fn metrics() -> Result<String, Fault> {
    let mut page = "# Metrics\n\n[Logs and metrics](observability.md) explains recorders, and [Deployment]\
                    (deploy.md#prometheus-and-grafana) alerts and the dashboard.\n"
        .to_owned();
    for (title, name, section) in [
        ("Locks, caches, work queues", "observability.md", "Metrics"),
        ("Jobs", "scheduling-reference.md", "Metrics and spans"),
    ] {
        let all = tables(&read(&format!("docs/{name}"))?, section, name);
        let of_metrics = all.into_iter().filter(|table| table.contains("\n| `bandog_")).collect();
        let table = one_of(of_metrics, &format!("docs/{name}: {section}"))?;
        page += &format!("\n## {title}\n\n{table}\n\nMore: [{name}]({name}).\n");
    }
    Ok(page)
}

/// The variants of an enum of exit codes: the code with its name in C, and the meaning.
fn documented_codes(source: &str) -> Vec<(String, String)> {
    let variants = source.split_once("enum ExitCode {").map_or("", |(_, rest)| rest);
    let variants = variants.split("\n}").next().unwrap_or_default();
    let (mut found, mut words) = (Vec::new(), Vec::new());
    for line in variants.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(text) = line.strip_prefix("/// ") {
            words.push(text);
            continue;
        }
        let text = words.join(" ");
        words.clear();
        let is_code = |code: &str| code.starts_with(|c: char| c.is_ascii_digit());
        let (code, meaning) = text.split_once(": ").filter(|(code, _)| is_code(code)).unwrap_or(("CMD's", &text));
        found.push((code.to_owned(), meaning.to_owned()));
    }
    found
}

/// The numbers of the codes.
fn numbers(source: &str) -> Vec<&str> {
    let arms = source.split("fn number").nth(1).unwrap_or_default().split("\n    }").next().unwrap_or_default();
    let numbers = arms.lines().filter_map(|line| line.split_once("=> ")?.1.strip_suffix(','));
    numbers.filter(|number| number.chars().all(|c| c.is_ascii_digit())).collect()
}

/// The options of one variant of `Scheme`.
fn of_client(arms: &str, variant: &str) -> Vec<String> {
    let name = format!("Scheme::{variant} ");
    arms.lines().find(|line| line.contains(&name)).map_or(Vec::new(), |line| quoted(line, "=>"))
}

/// The options of one scheme.
fn of_backend(arms: &str, scheme: &str) -> Vec<String> {
    let start = format!("\"{scheme}\" => ");
    let arm = arms.split_once(&start).and_then(|(_, rest)| rest.split(']').next());
    arm.map_or(Vec::new(), |arm| quoted(arm, "["))
}

/// The options of a database, without those of the other kind of server.
fn of_database(source: &str, variant: &str) -> Result<Vec<String>, Fault> {
    if !["MySql", "Postgres"].contains(&variant) {
        return Ok(Vec::new());
    }
    let own = quoted(part(source, "const OWN", ";\n", OF_DATABASES)?, "=");
    let start = format!("(Dialect::{variant}, ");
    let needs = part(source, "fn need(", "\n}", OF_DATABASES)?;
    let others = needs.lines().filter(|line| line.contains(&start) && line.contains("OtherServer"));
    let others: Vec<_> = others.flat_map(|line| quoted(line.split("=>").next().unwrap_or_default(), "(")).collect();
    Ok(own.into_iter().filter(|name| !others.contains(name)).collect())
}

/// The texts in double quotes after a mark.
fn quoted(text: &str, mark: &str) -> Vec<String> {
    let after = text.split_once(mark).map_or("", |(_, rest)| rest);
    after.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The part of a source between two texts.
fn part<'t>(source: &'t str, start: &str, end: &str, path: &str) -> Result<&'t str, Fault> {
    let rest = source.split_once(start).and_then(|(_, rest)| rest.split(end).next());
    rest.ok_or_else(|| Fault::failed(format!("{path} has no {start:?}")))
}

/// Whether a page has an option: in a URL, or between backticks.
fn describes(page: &str, option: &str) -> bool {
    [format!("?{option}="), format!("&{option}="), format!("`{option}`")].iter().any(|words| page.contains(words))
}

/// The tables of a section, with links that work on another page. An empty title is the part before the first section.
fn tables(text: &str, title: &str, page: &str) -> Vec<String> {
    let mut sections: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, section) in text.split("\n## ").enumerate() {
        let (head, rest) = section.split_once('\n').unwrap_or((section, ""));
        sections.entry(if at == 0 { "" } else { head }).or_insert(rest);
    }
    let section = sections.get(title).copied().unwrap_or_default();
    let blocks = section.split("\n\n").map(str::trim).filter(|block| block.starts_with('|'));
    blocks.map(|block| block.replace("](#", &format!("]({page}#"))).collect()
}

/// The only table of a list.
fn one_of(mut tables: Vec<String>, place: &str) -> Result<String, Fault> {
    match (tables.pop(), tables.is_empty()) {
        (Some(table), true) => Ok(table),
        _ => Err(Fault::failed(format!("{place}: one table was expected"))),
    }
}

fn read(path: &str) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| Fault::failed(format!("cannot read {path}: {error}")))
}

#[cfg(test)]
mod tests;
