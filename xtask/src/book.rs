//! The book: the pages of `docs` in English, those of `book/zh/src` in Chinese, and the HTML that mdBook makes of them.

mod links;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fault::Fault;
use crate::step;

/// The version of mdBook that is installed if there is none.
const MDBOOK: &str = "0.5.4";
/// Where mdBook is installed.
const TOOLS: &str = "target/xtask/mdbook";
/// Where the pages are collected: a folder for each language.
const STAGE: &str = "target/book/src";
/// The HTML.
const HTML: &str = "target/book/html";

/// Builds the book in each language, and checks the links of its HTML.
pub(crate) fn run() -> Result<(), Fault> {
    for page in pages::behind()? {
        step::headline(&format!("the English page has changed since it was translated: {page}"));
    }
    let (mdbook, help) = (program()?, pages::help()?);
    // A page that was deleted must not stay.
    let _ = fs::remove_dir_all(HTML);
    for language in ["en", "zh"] {
        let stage = Path::new(STAGE).join(language);
        pages::collect(language, &stage, &help)?;
        let html = here()?.join(HTML).join(language);
        let mut build = Command::new(&mdbook);
        step::run(&format!("the book: {language}"), build.arg("build").arg(&stage).arg("--dest-dir").arg(html))?;
    }
    let dead = links::dead(Path::new(HTML)).map_err(|error| Fault::failed(format!("cannot read {HTML}: {error}")))?;
    if !dead.is_empty() {
        return Err(Fault::failed(format!("links of the book that lead nowhere:\n  {}", dead.join("\n  "))));
    }
    println!("{HTML}/en/index.html\n{HTML}/zh/index.html");
    Ok(())
}

fn here() -> Result<PathBuf, Fault> {
    std::env::current_dir().map_err(|error| Fault::failed(format!("cannot find the current folder: {error}")))
}

/// The program mdBook. With CI=true it is installed below `target` if it is missing.
fn program() -> Result<PathBuf, Fault> {
    let installed = here()?.join(TOOLS).join("bin/mdbook");
    for program in [PathBuf::from("mdbook"), installed.clone()] {
        let version = Command::new(&program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if version.is_ok_and(|status| status.success()) {
            return Ok(program);
        }
    }
    if std::env::var("CI").is_err() {
        let how = format!("missing; please install: cargo install --locked mdbook@{MDBOOK}");
        return Err(Fault::unavailable(how));
    }
    let package = format!("mdbook@{MDBOOK}");
    let install = ["install", "--locked", "--debug", "--root", TOOLS, "--no-default-features", "--features", "search"];
    step::run("installing mdBook", step::cargo(&install).arg(&package))?;
    Ok(installed)
}
