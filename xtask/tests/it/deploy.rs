//! Checks the files of `deploy` against the pages, the manifests and the sources of the command.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    house::{files, root},
    pages::anchors,
    yaml::{document, documents, text},
};

const ALERTS: &str = "deploy/prometheus/alerts.yml";
const DASHBOARD: &str = "deploy/grafana/bandog.json";
/// The page of the runbooks, as the alerts name it.
const RUNBOOKS: &str = "https://github.com/bandog/bandog/blob/main/docs/incidents.md#";
/// Minimum number of seconds between the end of a drain and KILL: TERM and KILL of commands, and the last requests.
const RESERVE: u64 = 10;

#[test]
fn each_metric_is_in_the_pages() {
    let known = documented();
    assert!(known.len() > 35, "the pages have only {} metrics", known.len());
    for file in [ALERTS, DASHBOARD] {
        let unknown: Vec<_> = names(&read(file)).into_iter().filter(|name| family(name, &known).is_none()).collect();
        assert!(unknown.is_empty(), "{file}: no series has these names: {unknown:?}");
    }
}

#[test]
fn the_dashboard_has_each_metric() {
    let known = documented();
    let shown = names(&read(DASHBOARD));
    let shown: BTreeSet<_> = shown.iter().filter_map(|name| family(name, &known)).collect();
    let missing: Vec<_> = known.keys().filter(|name| !shown.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{DASHBOARD} does not show {missing:?}");
}

#[test]
fn each_panel_has_a_description_and_a_unit() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let rows: Vec<_> = panels.iter().filter(|panel| panel["type"] == "row").map(|row| &row["title"]).collect();
    assert_eq!(rows, ["Locks", "Jobs", "Work queues", "Caches"]);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one id");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let is_complete = text(&panel["description"])
            && text(&panel["fieldConfig"]["defaults"]["unit"])
            && panel["targets"].as_array().is_some_and(|targets| targets.iter().all(|target| text(&target["expr"])));
        assert!(is_complete, "the panel {} has no description, unit or query", panel["title"]);
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables: BTreeSet<_> = variables.map(|variable| variable["name"].as_str().unwrap()).collect();
    assert!(variables.is_superset(&["datasource", "job", "queue"].into()), "{variables:?}");
}

#[test]
fn each_alert_leads_to_a_section_of_the_incidents() {
    let (alerts, sections) = (document(ALERTS), anchors(&read("docs/incidents.md")));
    let groups = alerts["groups"].as_sequence().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_sequence().unwrap());
    let rules: Vec<_> = rules.filter(|rule| rule.contains_mapping_key("alert")).collect();
    assert!(rules.len() > 20, "only {} alerts", rules.len());
    for rule in rules {
        let name = text(rule, "alert");
        for part in ["expr", "labels.severity", "annotations.summary", "annotations.description"] {
            assert!(!text(rule, part).is_empty(), "{name}: no {part}");
        }
        let runbook = text(rule, "annotations.runbook");
        let section = runbook.strip_prefix(RUNBOOKS).unwrap_or_default();
        assert!(sections.iter().any(|known| known == section), "{name}: docs/incidents.md has no section {runbook:?}");
    }
}

#[test]
fn yaml_files_are_well_formed() {
    let yaml = deployed(&["yml", "yaml"]);
    assert!(yaml.len() >= 6, "{yaml:?}");
    for file in yaml {
        assert!(!documents(&file).is_empty(), "{file} has no documents");
    }
}

#[test]
fn each_command_exists() {
    let mut seen = 0;
    for file in deployed(&["service", "yaml", "yml"]).into_iter().chain(["docs/deploy.md".to_owned()]) {
        let text = read(&file);
        for words in command_lines(&text).into_iter().chain(quoted_commands(&text)) {
            let wrong = wrong_words(&words);
            assert!(wrong.is_empty(), "{file}: {:?} has no {wrong:?}", words.join(" "));
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} command lines were found");
}

#[test]
fn a_stop_takes_longer_than_the_drain() {
    let mut seen = 0;
    for file in deployed(&["service", "yaml"]) {
        let text = read(&file);
        for words in command_lines(&text) {
            let Some(at) = words.iter().position(|word| word == "--drain") else { continue };
            let drain: u64 = words[at + 1].strip_suffix('s').unwrap().parse().unwrap();
            let keys = ["TimeoutStopSec=", "terminationGracePeriodSeconds: "];
            let limits = text.lines().filter_map(|line| keys.iter().find_map(|key| line.trim().strip_prefix(key)));
            let limits: Vec<u64> = limits.map(|limit| limit.parse().unwrap()).collect();
            assert_eq!(limits.len(), 1, "{file}: limits of a stop");
            assert!(limits[0] >= drain + RESERVE, "{file}: the stop takes {} s, the drain {drain} s", limits[0]);
            seen += 1;
        }
    }
    assert_eq!(seen, 4, "command lines with --drain");
}

#[test]
fn the_image_is_built_from_the_workspace() {
    let (dockerfile, ignored, manifest) = (read("deploy/Dockerfile"), read(".dockerignore"), read("Cargo.toml"));
    let value = |key: &str| manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).unwrap();
    let oldest = value("rust-version").trim_matches('"');
    assert!(dockerfile.contains(&format!("\nARG RUST={oldest}\n")), "deploy/Dockerfile has another Rust than {oldest}");
    let members: Vec<String> = serde_json::from_str(value("members")).unwrap();
    for member in members {
        let folder = member.split('/').next().unwrap();
        assert!(ignored.lines().any(|line| line == format!("!{folder}")), ".dockerignore leaves out {folder}");
    }
    assert!(root().join("crates/bandog-cli").exists() && dockerfile.contains(" -p bandog-cli "));
}

#[test]
fn metrics_are_found() {
    let known = BTreeMap::from([("bandog_a_total".to_owned(), false), ("bandog_b_seconds".to_owned(), true)]);
    assert_eq!(
        names("sum(bandog_a_total{x=\"y\"}) bandog:c x_bandog_d bandog-e"),
        ["bandog_a_total".to_owned()].into()
    );
    assert_eq!(family("bandog_b_seconds_bucket", &known), Some("bandog_b_seconds"));
    assert_eq!(family("bandog_a_total", &known), Some("bandog_a_total"));
    for wrong in ["bandog_a", "bandog_a_total_sum", "bandog_b_seconds", "bandog_b_seconds_total"] {
        assert_eq!(family(wrong, &known), None, "{wrong}");
    }
    let pages = documented();
    assert_eq!(pages.get("bandog_run_seconds"), Some(&true));
    assert_eq!(pages.get("bandog_cache_age_ms_total"), Some(&false));
}

#[test]
fn wrong_commands_are_found() {
    let text = "ExecStart=/usr/bin/bandog work %i --drain 30s $A -- $B --mail\nExecReload=/bin/kill -HUP $MAINPID\n\
                  command: [\"/usr/local/bin/bandog\", \"page\"]\n  args: [\"--http\", \"0.0.0.0:80\"]\n\
                ```sh\nbandog jobs ls   # all\n```\n";
    let lines = command_lines(text);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1], ["page", "--http", "0.0.0.0:80"]);
    assert!(lines.iter().all(|words| wrong_words(words).is_empty()), "{lines:?}");
    let text = "# `bandog work q\n  # --http 1` and `x`, `bandog jbos ls`, `bandog --url U ls`";
    let wrong: Vec<_> = quoted_commands(text).iter().flat_map(|words| wrong_words(words)).collect();
    assert_eq!(wrong, ["--http", "jbos"]);
    let options = long_options(
        "#[arg(long, value_name = \"N\")]\npub(super) until_empty: bool,\n\
         #[arg(long = \"other\",\nrequires = \"x\")]\ny: u8,\n#[arg(last = true)]\nrest: u8,",
    );
    assert_eq!(options, ["--other".to_owned(), "--until-empty".to_owned()].into());
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of `deploy` with these extensions.
fn deployed(extensions: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| extensions.iter().any(|known| kind == *known)) {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// The metrics of the pages, and whether they are histograms.
fn documented() -> BTreeMap<String, bool> {
    let mut metrics = BTreeMap::new();
    for page in ["docs/observability.md", "docs/scheduling-reference.md"] {
        for line in read(page).lines().filter(|line| line.starts_with("| `bandog_")) {
            let words: Vec<_> = line.split('`').skip(1).step_by(2).collect();
            let is_histogram = line.split('|').nth(2).unwrap().contains("histogram");
            let name = words[0].split('{').next().unwrap();
            if let Some((start, end)) = name.split_once("COUNT") {
                let counts = words[1..].iter().filter(|word| !["cache", "CacheStats"].contains(word));
                metrics.extend(counts.map(|count| (format!("{start}{count}{end}"), is_histogram)));
            } else {
                metrics.insert(name.to_owned(), is_histogram);
            }
        }
    }
    metrics
}

/// The names in a text that begin with `bandog_`.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("bandog_")).map(str::to_owned).collect()
}

/// The metric of a series: a histogram has series with three endings, and none without.
fn family<'a>(series: &'a str, known: &BTreeMap<String, bool>) -> Option<&'a str> {
    let histogram = ["_bucket", "_count", "_sum"].iter().find_map(|end| series.strip_suffix(end));
    match histogram {
        Some(name) if known.get(name) == Some(&true) => Some(name),
        _ => (known.get(series) == Some(&false)).then_some(series),
    }
}

/// The words after `bandog` of the command lines of units, manifests and blocks of shell code.
fn command_lines(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let list = |line: &str, key: &str| {
            let list = line.strip_prefix(key).filter(|list| list.starts_with('['))?;
            Some(serde_json::from_str::<Vec<String>>(list).unwrap_or_else(|error| panic!("{line}: {error}")))
        };
        if let Some(mut words) = list(line, "command: ").filter(|words| words[0] == "/usr/local/bin/bandog") {
            words.extend(lines.get(at + 1).and_then(|next| list(next, "args: ")).unwrap_or_default());
            found.push(words[1..].to_vec());
        }
        let unit = line.split_once("=/usr/bin/bandog ").filter(|(key, _)| key.starts_with("Exec"));
        let shell = line.strip_prefix("bandog ");
        if let Some(rest) = unit.map(|(_, rest)| rest).or(shell) {
            let rest = rest.split(" # ").next().unwrap();
            found.push(rest.split_whitespace().map(str::to_owned).collect());
        }
    }
    found
}

/// The words after `bandog` of the command lines between backticks, also in comments of several lines.
fn quoted_commands(text: &str) -> Vec<Vec<String>> {
    let plain = text.split("```").step_by(2);
    let joined = |part: &str| {
        let lines = part.lines().map(|line| line.trim_start().trim_start_matches('#').trim());
        lines.collect::<Vec<_>>().join(" ")
    };
    let spans: Vec<_> = plain
        .flat_map(|part| joined(part).split('`').map(str::to_owned).skip(1).step_by(2).collect::<Vec<_>>())
        .collect();
    let commands = spans.iter().filter_map(|span| span.strip_prefix("bandog "));
    commands.map(|words| words.split_whitespace().map(str::to_owned).collect()).collect()
}

/// The subcommand if it does not exist, else the options that it does not have.
fn wrong_words(words: &[String]) -> Vec<String> {
    let own: Vec<_> = words.iter().take_while(|word| *word != "--").collect();
    let Some(command) = own.iter().enumerate().find_map(|(at, word)| {
        let is_value = at > 0 && own[at - 1] == "--url";
        (!word.starts_with('-') && !is_value).then_some(*word)
    }) else {
        return own.into_iter().filter(|word| !["--help", "--version"].contains(&word.as_str())).cloned().collect();
    };
    if !subcommands().contains(command) {
        return vec![command.clone()];
    }
    let known = options(command);
    let given = own.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap());
    given.filter(|option| *option != "--help" && !known.contains(*option)).map(str::to_owned).collect()
}

/// The visible subcommands of bandog.
fn subcommands() -> BTreeSet<String> {
    let source = read("crates/bandog-cli/src/args.rs");
    let variants = source.split_once("enum Visible {").unwrap().1.split('}').next().unwrap();
    variants.lines().filter_map(|line| Some(line.trim().split_once('(')?.0.to_lowercase())).collect()
}

/// The long options of a subcommand: those in its sources, and those that it shares with others.
fn options(command: &str) -> BTreeSet<String> {
    let folder = root().join("crates/bandog-cli/src");
    let own = folder.join(command);
    let inner = if own.is_dir() { files(&own) } else { Vec::new() };
    let source = |path: &Path| fs::read_to_string(path).unwrap();
    let mut text: String = inner.iter().map(|path| source(path)).collect();
    text += &source(&own.with_extension("rs"));
    for (sign, shared) in [("http::Options", "http.rs"), ("format: Format,", "print.rs")] {
        if text.contains(sign) {
            text += &source(&folder.join(shared));
        }
    }
    text += &source(&folder.join("args.rs"));
    text += &source(&folder.join("store.rs"));
    long_options(&text)
}

/// The options of the fields with the attribute `#[arg(long …)]`.
pub(crate) fn long_options(text: &str) -> BTreeSet<String> {
    let (mut found, mut attribute) = (BTreeSet::new(), String::new());
    for line in text.lines().map(str::trim) {
        let continues = !attribute.is_empty() && !attribute.ends_with(")]");
        if line.starts_with("#[arg(") || continues {
            attribute.push_str(line);
            continue;
        }
        let words = attribute.trim_start_matches("#[arg(").trim_end_matches(")]").split(',').map(str::trim);
        let long =
            words.filter_map(|word| word.strip_prefix("long")).find(|rest| rest.is_empty() || rest.starts_with(" = "));
        if let (Some(name), Some((field, _))) = (long, line.split_once(':')) {
            let field = field.rsplit(' ').next().unwrap().replace('_', "-");
            let name = if name.is_empty() { &field } else { name.trim_start_matches(" = ").trim_matches('"') };
            found.insert(format!("--{name}"));
        }
        attribute.clear();
    }
    found
}
