//! The pictures of the docs, made from the page as it is: `cargo xtask page --pictures`.

use std::{env, fs, path::PathBuf};

use bandog_testkit::eventually;

use crate::{
    browser::{DESK, PHONE, Screen},
    help::SOON,
    house::House,
};

/// The variable that names the folder for the pictures.
const FOLDER: &str = "BANDOG_PICTURES";
/// Few enough bytes for a repository.
const MOST: usize = 150_000;

#[test]
fn pictures_of_the_docs_can_be_made() {
    let house = House::open(DESK);
    let browser = &house.browser;
    let holder = house.place.start(&["lock", "deploy", "--url", &house.redis.url(), "--", "sh", "-c", "read word"]);
    browser.says("#locks", "deploy");
    browser.says(&format!("{} .last", House::job("send-invoices")), "failed in ");
    browser.says(&format!("{} .last", House::job("warm-cache")), "ok in ");
    if env::var_os(FOLDER).is_some() {
        // A row of bars is worth showing when it is almost full.
        let bars = format!("document.querySelector(\"{} .bars svg\").bars.length", House::job("fetch-prices"));
        eventually(4 * SOON, || browser.eval(&bars).as_u64() >= Some(45));
    }
    take(&house, "page-wide-light", Screen { height: 840, ..DESK });
    take(&house, "page-wide-dark", Screen { height: 840, scheme: "dark", ..DESK });
    take(&house, "page-phone", PHONE);
    browser.look_from(DESK);
    house.unfold("send-invoices");
    let job = House::job("send-invoices");
    browser.says(&format!("{job} .fold"), "× ");
    browser.eval(&format!("document.querySelector(\"{job}\").scrollIntoView()"));
    browser.eval(&format!("document.querySelector(\"{job} details\").open = true"));
    take(&house, "page-job", Screen { height: 640, ..DESK });
    drop(holder);
}

/// Kept only where somebody asked for it.
fn take(house: &House, name: &str, screen: Screen) {
    house.browser.look_from(screen);
    let png = base64(&house.browser.picture());
    assert!(png.starts_with(b"\x89PNG") && png.len() < MOST, "{name}: {} bytes", png.len());
    if let Some(folder) = env::var_os(FOLDER) {
        fs::write(PathBuf::from(folder).join(format!("{name}.png")), png).unwrap();
    }
}

/// The bytes that a text of base64 stands for.
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
