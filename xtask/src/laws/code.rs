//! The laws and the worlds in the source code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::fault::Fault;

use super::read;

/// The file with the list of all laws.
const LIST: &str = "crates/bandog-conformance/src/run.rs";
/// The folder with the functions of the laws.
const LAWS: &str = "crates/bandog-conformance/src/laws";

/// A law of the code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Law {
    pub(super) number: u32,
    /// The name of the function.
    pub(super) name: String,
    /// The first sentence of the function's documentation.
    pub(super) text: String,
}

/// All laws, by their numbers.
pub(super) fn laws() -> Result<Vec<Law>, Fault> {
    let mut laws = Vec::new();
    for (number, group, name) in listed(&read(LIST)?) {
        let file = format!("{LAWS}/{group}.rs");
        let text = first_sentence(&read(&file)?, &name)
            .ok_or_else(|| Fault::failed(format!("{file} has no documentation of {name} that begins with `Law`")))?;
        laws.push(Law { number, name, text });
    }
    for path in entries(Path::new(LAWS))? {
        let file = path.display().to_string();
        let of_file = functions(&read(&file)?);
        if let Some(name) = of_file.iter().find(|name| !laws.iter().any(|law| law.name == **name)) {
            return Err(Fault::failed(format!("{file} has the law {name}, which no world runs: add it to {LIST}")));
        }
    }
    laws.sort_by_key(|law| law.number);
    Ok(laws)
}

/// The names of the functions of laws in this source.
pub(super) fn functions(source: &str) -> Vec<String> {
    let names = source.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("pub async fn ")?.split_once("<W: World>(world: &W) -> Law")?;
        Some(name.to_owned())
    });
    names.collect()
}

/// The number, the group and the name of each law in the list.
pub(super) fn listed(list: &str) -> Vec<(u32, String, String)> {
    let lines = list.lines().filter_map(|line| line.trim().strip_prefix("$crate::one_law! { $test $world, "));
    let parts = lines.filter_map(|line| {
        let mut parts = line.strip_suffix(" }")?.split(", ");
        Some((parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?.to_owned()))
    });
    parts.collect()
}

/// The first sentence of the documentation of this function, without the number of the law.
pub(super) fn first_sentence(source: &str, name: &str) -> Option<String> {
    let lines: Vec<_> = source.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("pub async fn {name}<")))?;
    let above = lines.iter().take(at).rev().take_while(|line| line.starts_with("//") || line.starts_with("#["));
    let mut above: Vec<_> = above.filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    above.reverse();
    let text = above.join(" ");
    let text = text.strip_prefix("Laws ").or_else(|| text.strip_prefix("Law "))?;
    let text = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = text.strip_prefix(" and ").map_or(text, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let text = text.strip_prefix([':', ','])?.trim_start();
    let sentence = text.split(". ").next()?.trim_end_matches('.');
    Some(sentence.replace("[`", "`").replace("`]", "`"))
}

/// The names of all worlds in the tests.
pub(super) fn worlds() -> Result<BTreeSet<String>, Fault> {
    let mut worlds = BTreeSet::new();
    let mut folders = vec![PathBuf::from("crates")];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") && path.iter().any(|part| part == "tests") {
                let text = read(&path.display().to_string())?;
                let names = text.lines().filter_map(|line| line.trim().strip_prefix("const NAME: &'static str = \""));
                worlds.extend(names.filter_map(|name| name.strip_suffix("\";")).map(str::to_owned));
            }
        }
    }
    Ok(worlds)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let cannot = |error| Fault::failed(format!("cannot list {}: {error}", folder.display()));
    let entries = fs::read_dir(folder).map_err(cannot)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(cannot)).collect()
}
