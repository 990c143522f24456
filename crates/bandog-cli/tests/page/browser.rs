//! A real headless browser, driven over its DevTools protocol.
//!
//! Messages go through two named pipes (`--remote-debugging-pipe`), without a port or a WebSocket.

use std::{
    cell::{Cell, RefCell},
    env,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::Command,
    sync::mpsc::{Receiver, channel},
    thread,
};

use bandog_testkit::{Process, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::help::SOON;

/// Names of the browser's program on Debian and other systems. The variable `BANDOG_CHROMIUM` can name another program.
const NAMES: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// With these flags the browser sends requests to the page only, and keeps no data. It has no sandbox, because tests
/// often run as root or in a container. This is safe, because the browser loads only the tested files.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
];

/// One browser with one tab. It dies with the test.
pub(crate) struct Browser {
    _process: Process,
    _place: TempDir,
    /// The pipe to the browser.
    to: RefCell<File>,
    /// The messages from the browser.
    from: Receiver<Value>,
    /// The id of the last request.
    last: Cell<u64>,
    session: RefCell<Option<String>>,
    events: RefCell<Vec<Value>>,
}

/// The size and the colour scheme of the screen.
#[derive(Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scheme: &'static str,
}

pub(crate) const DESK: Screen = Screen { width: 1280, height: 800, scheme: "light" };
pub(crate) const PHONE: Screen = Screen { width: 390, height: 844, scheme: "dark" };

impl Browser {
    pub(crate) fn start() -> Self {
        let place = tempfile::Builder::new().prefix("bandog-page-").tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| place.path().join(name));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        let mut command = Command::new("sh");
        command.args(["-c", r#"to=$1 from=$2; shift 2; exec "$@" 3<"$to" 4>"$from""#, "sh"]);
        command.arg(&to).arg(&from).arg(program()).args(FLAGS);
        command.arg(format!("--user-data-dir={}", place.path().join("profile").display())).arg("about:blank");
        // A named pipe that is opened in both directions does not block. The browser exits when its end closes.
        let [to, from] = [to, from].map(|path| OpenOptions::new().read(true).write(true).open(path).unwrap());
        let browser = Self {
            _process: Process::spawn(&command),
            to: RefCell::new(to),
            from: read_messages(from),
            _place: place,
            last: Cell::new(0),
            session: RefCell::new(None),
            events: RefCell::default(),
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach);
        *browser.session.borrow_mut() = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime", "Log", "Network", "Page", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Opens an address, on this screen and in London.
    pub(crate) fn open(&self, address: &str, screen: Screen) {
        self.use_screen(screen);
        self.call("Emulation.setTimezoneOverride", &json!({ "timezoneId": "Europe/London" }));
        self.call("Page.navigate", &json!({ "url": address }));
        eventually(SOON, || self.eval("document.readyState") == "complete");
    }

    /// Opens an address in a new document, also if only its fragment differs from that of the present one.
    pub(crate) fn open_anew(&self, address: &str, screen: Screen) {
        self.open("about:blank", screen);
        self.open(address, screen);
    }

    pub(crate) fn use_screen(&self, Screen { width, height, scheme }: Screen) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// The result of a script.
    #[track_caller]
    pub(crate) fn eval(&self, script: &str) -> Value {
        let call = json!({ "expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let mut answer = self.call("Runtime.evaluate", &call);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// The visible text of the first matching element.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!("document.querySelector({})?.innerText ?? ''", json!(selector));
        self.eval(&script).as_str().unwrap().to_owned()
    }

    /// Waits until the first matching element contains this text.
    #[track_caller]
    pub(crate) fn says(&self, selector: &str, words: &str) {
        eventually(SOON, || {
            let text = self.text(selector);
            if text.contains(words) { Ok(()) } else { Err(format!("{selector} says {text:?}, not {words:?}")) }
        });
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.eval(&format!("document.querySelector({}).click()", json!(selector)));
    }

    /// Presses and releases a key.
    pub(crate) fn press(&self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            key if key.len() == 1 => key,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    pub(crate) fn type_text(&self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// A screenshot, as the base64 text of a PNG.
    pub(crate) fn picture(&self) -> String {
        self.call("Page.captureScreenshot", &json!({ "format": "png" }))["data"].as_str().unwrap().to_owned()
    }

    /// Sets the languages that the browser asks for.
    pub(crate) fn accept(&self, languages: &str) {
        let agent = self.eval("navigator.userAgent");
        self.call("Emulation.setUserAgentOverride", &json!({ "userAgent": agent, "acceptLanguage": languages }));
    }

    /// A figure of the browser, such as `JSHeapUsedSize`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.call("Performance.enable", &json!({}));
        self.call("HeapProfiler.collectGarbage", &json!({}));
        let metrics = self.call("Performance.getMetrics", &json!({}));
        let metric = metrics["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        metric.unwrap()["value"].as_f64().unwrap()
    }

    /// Moves the focus by this number of presses of the tabulator key, and returns the focused elements.
    pub(crate) fn tab(&self, times: usize) -> Vec<String> {
        let focused =
            "(({ id, dataset, tagName }) => id || dataset.go || tagName.toLowerCase())(document.activeElement)";
        let tab = |_| {
            self.press("Tab");
            self.eval(focused).as_str().unwrap().to_owned()
        };
        (0..times).map(tab).collect()
    }

    /// The role and the name of each interactive element, as assistive programs see them.
    pub(crate) fn controls(&self) -> Vec<(String, String)> {
        let is_control = |role: &str| ["button", "link", "textbox", "searchbox"].contains(&role);
        self.roles().into_iter().filter(|(role, _)| is_control(role)).collect()
    }

    /// The role and the name of each element, as assistive programs see them.
    pub(crate) fn roles(&self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// All requested addresses so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.read_events();
        let events = self.events.borrow();
        let requests = events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// The errors of the developer console, without the expected error statuses of the server.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.read_events();
        let events = self.events.borrow();
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                entry["level"] == "error" && entry["source"] != "network"
            }
            _ => false,
        };
        events.iter().filter(is_complaint).map(Value::to_string).collect()
    }

    #[track_caller]
    fn call(&self, method: &str, params: &Value) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &*self.session.borrow() {
            message["sessionId"] = session.as_str().into();
        }
        let text = format!("{message}\0");
        self.to.borrow_mut().write_all(text.as_bytes()).unwrap();
        loop {
            let mut message = self.from.recv_timeout(SOON).unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.borrow_mut().push(message);
        }
    }

    /// Reads the events so far.
    fn read_events(&self) {
        // A call reads all messages that come before its answer.
        self.call("Runtime.evaluate", &json!({ "expression": "0" }));
    }
}

/// The incoming messages; each ends with a zero byte.
fn read_messages(from: File) -> Receiver<Value> {
    let (messages, inbox) = channel();
    thread::spawn(move || {
        for message in BufReader::new(from).split(0).map_while(Result::ok) {
            if messages.send(serde_json::from_slice(&message).unwrap()).is_err() {
                return;
            }
        }
    });
    inbox
}

fn program() -> PathBuf {
    if let Some(named) = env::var_os("BANDOG_CHROMIUM") {
        return named.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = NAMES.iter().flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
    places.find(|place| place.is_file()).unwrap_or_else(|| {
        panic!("there is no Chromium: apt-get install chromium-headless-shell, or name one in BANDOG_CHROMIUM")
    })
}
