//! The book: the pages of `docs` in English, those of `book/zh/src` in Chinese, and the HTML that mdBook makes of them.

mod links;
mod pages;
mod reference;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo_tools::MDBOOK;
use crate::fault::Fault;
use crate::step;
use crate::tools;

/// Where the pages are collected: a folder for each language.
const STAGE: &str = "target/book/src";
/// The HTML.
const HTML: &str = "target/book/html";

/// Builds the book in each language, and checks the links of its HTML.
pub(crate) fn run() -> Result<(), Fault> {
    for page in pages::behind()? {
        step::headline(&format!("the English page has changed since it was translated: {page}"));
    }
    MDBOOK.command()?; // A missing program is reported before the command is built.
    let help = pages::help()?;
    // A page that was deleted must not stay.
    let _ = fs::remove_dir_all(HTML);
    for language in ["en", "zh"] {
        let stage = Path::new(STAGE).join(language);
        pages::collect(language, &stage, &help)?;
        let html = here()?.join(HTML).join(language);
        let mut build = MDBOOK.command()?;
        step::run(&format!("the book: {language}"), build.arg("build").arg(&stage).arg("--dest-dir").arg(html))?;
    }
    let dead = links::dead(Path::new(HTML)).map_err(|error| Fault::failed(format!("cannot read {HTML}: {error}")))?;
    if !dead.is_empty() {
        return Err(Fault::failed(format!("links of the book that lead nowhere:\n  {}", dead.join("\n  "))));
    }
    try_search()?;
    println!("{HTML}/en/index.html\n{HTML}/zh/index.html");
    Ok(())
}

/// Searches the book in each language in a Chromium, from its files, if there is one.
fn try_search() -> Result<(), Fault> {
    let Some(program) = tools::program(&tools::CHROMIUM) else {
        step::headline("no Chromium is installed, so the search of the book is not tried");
        return Ok(());
    };
    // In Chinese: "watchdog", as a part of a sentence without blanks.
    for (language, words) in [("en", "watchdog"), ("zh", "%E7%9C%8B%E9%97%A8%E7%8B%97")] {
        step::headline(&format!("a search in the book: {language}"));
        let page = here()?.join(HTML).join(language).join("index.html");
        let mut browser = Command::new(program);
        browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]);
        let shown = step::output(browser.arg(format!("file://{}?search={words}", page.display())))?;
        if !shown.contains("search result") || shown.contains("No search results") {
            return Err(Fault::failed(format!("a search for {words} finds nothing in the book: {language}")));
        }
    }
    Ok(())
}

fn here() -> Result<PathBuf, Fault> {
    std::env::current_dir().map_err(|error| Fault::failed(format!("cannot find the current folder: {error}")))
}
