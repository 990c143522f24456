//! The pages of the book: collected from the repository, with the links that a book needs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::fault::Fault;
use crate::step;

use super::reference;

/// The English pages, and the Chinese ones.
const ENGLISH: &str = "docs";
const CHINESE: &str = "book/zh/src";
/// Where the pictures are, seen from a Chinese page.
const PICTURES: &str = "../../../docs/pictures/";
/// Where files of the repository are that are no pages of the book.
const REPOSITORY: &str = "https://github.com/bandog/bandog/blob/main";
/// A part of the head of each page in Chinese: its search.
const HEAD: &str = "theme/head.hbs";
/// The page with the help of each command.
const HELP: &str = "help.md";

/// Writes the pages and the settings of a language into the folder `stage`, for mdBook.
pub(super) fn collect(language: &str, stage: &Path, help: &str) -> Result<(), Fault> {
    let failed = |error: io::Error| Fault::failed(format!("cannot write {}: {error}", stage.display()));
    let folder = if language == "zh" { CHINESE } else { ENGLISH };
    let own = names(folder)?;
    // A page that was deleted must not stay.
    let _ = fs::remove_dir_all(stage);
    let source = stage.join("src");
    fs::create_dir_all(source.join("pictures")).map_err(failed)?;
    let settings = Path::new("book").join(language);
    for (from, to) in [("book.toml", stage.join("book.toml")), ("SUMMARY.md", source.join("SUMMARY.md"))] {
        fs::copy(settings.join(from), to).map_err(failed)?;
    }
    if language == "zh" {
        fs::create_dir_all(stage.join("theme")).map_err(failed)?;
        fs::copy(settings.join(HEAD), stage.join(HEAD)).map_err(failed)?;
    }
    for picture in fs::read_dir("docs/pictures").map_err(failed)? {
        let picture = picture.map_err(failed)?;
        fs::copy(picture.path(), source.join("pictures").join(picture.file_name())).map_err(failed)?;
    }
    for name in &own {
        let text = read(&Path::new(folder).join(name))?;
        fs::write(source.join(name), linked(&text, &own)).map_err(failed)?;
    }
    if language == "en" {
        fs::write(source.join(HELP), help).map_err(failed)?;
        for (name, chapter) in reference::CHAPTERS {
            fs::write(source.join(name), linked(&chapter()?, &own)).map_err(failed)?;
        }
    }
    Ok(())
}

/// The text with links that work in the book: a page that only the English book has is found there, and other files are in
/// the repository.
fn linked(text: &str, own: &BTreeSet<String>) -> String {
    let mut parts = text.split("](");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let (path, anchor) =
            target.split_once('#').map_or((target, String::new()), |(path, id)| (path, format!("#{id}")));
        let in_repository = path.trim_start_matches("../");
        let page = if in_repository == path { path } else { in_repository.strip_prefix("docs/").unwrap_or_default() };
        let target = match page.strip_suffix(".md") {
            Some(_) if own.contains(page) => format!("{page}{anchor}"),
            Some(name) if !path.contains("://") => format!("../en/{name}.html{anchor}"),
            _ if in_repository != path && !path.starts_with(PICTURES) => {
                format!("{REPOSITORY}/{in_repository}{anchor}")
            }
            _ => target.to_owned(),
        };
        linked += &format!("]({target}){rest}");
    }
    linked.replace(PICTURES, "pictures/")
}

/// The Chinese pages whose English page has changed since they were translated. The last line of a Chinese page has the
/// hash of the English page, as of `git hash-object`.
pub(super) fn behind() -> Result<Vec<String>, Fault> {
    let mut behind = Vec::new();
    let pages = names(CHINESE)?.into_iter().map(|name| (format!("{ENGLISH}/{name}"), format!("{CHINESE}/{name}")));
    for (english, chinese) in pages.chain([("README.md".to_owned(), "README.zh-CN.md".to_owned())]) {
        if !Path::new(&english).exists() {
            continue; // The glossary.
        }
        let hash = step::output(Command::new("git").args(["hash-object", &english]))?;
        if !read(Path::new(&chinese))?.trim_end().ends_with(&format!("<!-- {english} {} -->", hash.trim())) {
            behind.push(english);
        }
    }
    Ok(behind)
}

/// A page with the help of each command.
pub(super) fn help() -> Result<String, Fault> {
    step::run("the command", &mut step::cargo(&["build", "--quiet", "--locked", "--package", "bandog-cli"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), std::path::PathBuf::from);
    let help = |path: &[&str]| step::output(Command::new(target.join("debug/bandog")).args(path).arg("--help"));
    let mut page = "# The help of each command\n".to_owned();
    let mut left = vec![Vec::new()];
    while let Some(path) = left.pop() {
        let text = help(&path.iter().map(String::as_str).collect::<Vec<_>>())?;
        let title = [&["bandog".to_owned()], &path[..]].concat().join(" ");
        page += &format!("\n## `{title}`\n\n```text\n{}\n```\n", text.trim_end());
        let commands: Vec<_> =
            commands(&text).into_iter().map(|name| [&path[..], &[name.to_owned()]].concat()).collect();
        left.extend(commands.into_iter().rev());
    }
    Ok(page)
}

/// The names of the commands in a help text.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A name has two blanks before it; the lines of its description have more.
    let names =
        lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next());
    names.filter(|name| *name != "help").collect()
}

fn names(folder: &str) -> Result<BTreeSet<String>, Fault> {
    let entries = fs::read_dir(folder).map_err(|error| Fault::failed(format!("cannot read {folder}: {error}")))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| name.ends_with(".md")).collect())
}

fn read(path: &Path) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| Fault::failed(format!("cannot read {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_book_or_to_the_repository() {
        let own = ["redis.md".to_owned()].into();
        for (link, expected) in [
            ("redis.md#x", "redis.md#x"),
            ("help.md#y", "../en/help.html#y"),
            ("../../../docs/work.md#y", "../en/work.html#y"),
            ("../../../docs/pictures/a.png", "pictures/a.png"),
            ("../README.md", &format!("{REPOSITORY}/README.md")),
            ("../../../examples/README.md#z", &format!("{REPOSITORY}/examples/README.md#z")),
            ("https://e.f/g.md", "https://e.f/g.md"),
            ("#i", "#i"),
        ] {
            assert_eq!(linked(&format!("[a]({link}) b"), &own), format!("[a]({expected}) b"));
        }
    }

    #[test]
    fn commands_are_found_in_a_help() {
        let help =
            "Locks.\n\nCommands:\n  lock  Takes\n        a lock\n  ls    Lists\n  help  Print\n\nOptions:\n  -v\n";
        assert_eq!(commands(help), ["lock", "ls"]);
        assert!(commands("Options:\n  -v\n").is_empty());
    }
}
