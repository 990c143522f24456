//! Creates the pictures of the docs from the page: `cargo xtask page --pictures`.

use std::{env, fs, path::PathBuf};

use bandog_testkit::eventually;

use crate::{
    browser::{DESK, PHONE, Screen},
    fixture::Fixture,
    help::SOON,
};

/// The variable that names the folder for the pictures.
const FOLDER: &str = "BANDOG_PICTURES";
/// Maximum size of a picture, in bytes.
const MOST: usize = 150_000;

#[test]
fn pictures_of_the_docs_can_be_made() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    let holder = fixture.place.start(&["lock", "deploy", "--url", &fixture.redis.url(), "--", "sh", "-c", "read word"]);
    browser.says("#locks", "deploy");
    browser.says(&format!("{} .last", Fixture::job("send-invoices")), "failed in ");
    browser.says(&format!("{} .last", Fixture::job("warm-cache")), "ok in ");
    if env::var_os(FOLDER).is_some() {
        // A row of bars is worth showing when it is almost full.
        let bars = format!("document.querySelector(\"{} .bars svg\").bars.length", Fixture::job("fetch-prices"));
        eventually(4 * SOON, || browser.eval(&bars).as_u64() >= Some(45));
    }
    take(&fixture, "page-wide-light", Screen { height: 900, ..DESK });
    take(&fixture, "page-wide-dark", Screen { height: 900, scheme: "dark", ..DESK });
    take(&fixture, "page-phone", PHONE);
    browser.use_screen(DESK);
    fixture.unfold("send-invoices");
    let job = Fixture::job("send-invoices");
    browser.says(&format!("{job} .fold"), "× ");
    browser.eval(&format!("document.querySelector(\"{job}\").scrollIntoView()"));
    browser.eval(&format!("document.querySelector(\"{job} details\").open = true"));
    take(&fixture, "page-job", Screen { height: 640, ..DESK });
    drop(holder);
}

/// Writes a picture, if the variable is set.
fn take(fixture: &Fixture, name: &str, screen: Screen) {
    fixture.browser.use_screen(screen);
    let png = base64(&fixture.browser.picture());
    assert!(png.starts_with(b"\x89PNG") && png.len() < MOST, "{name}: {} bytes", png.len());
    if let Some(folder) = env::var_os(FOLDER) {
        fs::write(PathBuf::from(folder).join(format!("{name}.png")), png).unwrap();
    }
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0, 0_usize);
    for value in values {
        held = (held << 6 | value) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xFF).unwrap());
        }
    }
    bytes
}
